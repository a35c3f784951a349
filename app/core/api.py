"""Roundhouse's own HTTP API: its version, its prefix, and the replies that belong to no other noun.

Routes below `PREFIX` (the gateway serves the OpenAPI document at `PREFIX/openapi.json`); all need the token of the
port file as `Authorization: Bearer`, which counts on this computer only, or an access key with the scope manage:

    GET    /status                             Status
    POST   /shutdown                           202
    GET    /machine[?fresh=1]                  Machine
    GET    /settings                           list[SettingInfo]
    PATCH  /settings             {name: value} list[SettingInfo]; null resets
    GET    /events[?logs=1]                    SSE of Event
    GET    /keys                               list[KeyInfo]
    POST   /keys                 NewKey        KeyWithSecret, the only time the key is told
    POST   /keys/{name}/limits   KeyLimits     KeyInfo; these limits and no others
    POST   /keys/{name}/rename   KeyRename     KeyInfo; nothing else about it changes
    DELETE /keys/{name}                        204, from then on it opens nothing
    POST   /keys/{name}/restore                KeyInfo, of a key revoked since the gateway started
    GET    /engines/stock                      list[EngineListing], those that suit this machine first
    GET    /engines/confinement                ConfinementReport: what engines are kept from on this computer
    GET    /engines/job                        EngineJob or null: what runs, or ran last
    DELETE /engines/job                        204, calls it off
    GET    /engines/log                        list[LogLine], what jobs said
    POST   /engines/{id}/install InstallEngine EngineJob; /events say how far it is
    GET    /engines/{id}/update?channel=       EngineUpdate, nothing is changed
    POST   /engines/{id}/update  InstallEngine EngineJob
    POST   /engines/{id}/use     UseEngine     EngineJob or null, when it was done at once
    POST   /engines/{id}/rollback              204
    POST   /engines/{id}/test    TestEngine    EngineJob
    POST   /engines/{id}/plan    EnginePlanRequest  EnginePlan: the commands it would be started with
    POST   /engines/{id}/bundle  BundleEngine  EngineJob
    DELETE /engines/{id}/versions/{version}    204
    GET    /engines                            list[EngineInfo]
    GET    /choice                             EngineChoice
    GET    /models                             list[ModelInfo]
    POST   /models               RegisterModel ModelInfo
    DELETE /models/{name}                      204, forgets a registered file and leaves it on disk
    GET    /model-settings                     ModelSettings by model, where anything is set
    GET    /model-settings/{name}              ModelChoices: what is set, recommended, and to be had for one model
    POST   /model-settings       SetModel      ModelSettings, all of one model at once
    GET    /autocomplete                       Autocomplete: which model completes code, and whether it has room
    POST   /autocomplete  ChooseAutocomplete   Autocomplete, and the model is loaded
    POST   /made                 MakeModel     ModelInfo, a name with settings over weights that are here
    GET    /attached                           list[ModelInfo], of endpoints that run elsewhere
    POST   /attached         AttachEndpoint    list[ModelInfo]
    PATCH  /attached/{name}  CorrectAttached   ModelInfo, its endpoint is asked anew
    DELETE /attached/{name}                    204, forgets its key too
    GET    /fleets                             list[Fleet], and how each replica stands now
    POST   /fleets           StartFleet        ModelInfo, in place of the fleet that had its name
    POST   /fleets/{name}/start                Fleet, one that was stopped
    POST   /fleets/{name}/stop                 Fleet, after the answers in progress
    POST   /fleets/{name}/roll  RollFleet      Fleet, its engines are started anew one after the other
    POST   /fleets/{name}/replicas AddReplica  Fleet
    POST   /fleets/{name}/replicas/{replica}/drain   Fleet, that one gets no new requests
    POST   /fleets/{name}/replicas/{replica}/resume  Fleet, it gets some again
    DELETE /fleets/{name}/replicas/{replica}   Fleet without it
    GET    /machines                           MachineList: this machine, and those paired with it
    POST   /machines/code                      MachineCode, by which one machine can be paired
    DELETE /machines/code                      204, none can any more
    POST   /machines             PairMachine   MachineStanding
    POST   /machines/wake        WakeMachine   204, nobody can tell whether it woke
    GET    /machines/memory                    [MachineMemory], what each lends this one now, for ?model=, measured
    PATCH  /machines/{name}      ChangeMachine MachineStanding; memory that is lent no longer is taken back at once
    DELETE /machines/{name}                    204, its connections end at once, the tunnel's too
    POST   /deployments/render DeploymentRequest Deployment: files for a cluster, nothing is written
    POST   /plan/across          AcrossRequest AcrossPlan: which machine would hold which layers
    GET    /memory                             MemoryState: what models share, who holds it, who waits
    GET    /pause                              Pause: whether models are kept out of memory
    POST   /pause                              Pause, answers that had begun are finished first
    DELETE /pause                              204, what was loaded comes back
    GET    /running                            list[EngineStatus]
    POST   /load                 LoadModel     EngineStatus
    POST   /unload               UnloadModel   EngineStatus
    GET    /logs[?model=&tail=]                list[LogLine], of every engine without `model`; live: /events?logs=1
    GET    /profiles                           ProfileList, with the active one and the next switch
    POST   /profiles             SaveProfile   Profile
    GET    /profiles/{name}                    Profile
    DELETE /profiles/{name}                    204, what is loaded stays
    GET    /profile/draft                      Profile: what is loaded and counts now, not kept
    POST   /profile/plan         UseProfile    ProfilePlan, nothing is changed
    POST   /profile/use          UseProfile    ProfilePlan; an empty name: no profile
    POST   /profile/undo                       ProfilePlan, as before the last switch
    GET    /hub/model?name=                    HubModel, before a byte is fetched
    GET    /hub/search?text=&task=&format=&... HubResults, one page of cards (core.hub.HubQuery)
    GET    /hub/best?use=                      list[HubPick] of the catalogue, the best for this machine first
    GET    /hub/catalogue?use=&text=           list[HubPick] of all the catalogue has for a use or by these words
    POST   /hub/catalogue                      CatalogueInfo, fetched anew
    POST   /hub/catalogue/look                 204; what the catalogue has now is no longer new
    GET    /hub/token                          HubTokenState; the token itself is never told
    POST   /hub/token            SetHubToken   HubTokenState
    DELETE /hub/token                          204
    GET    /downloads                          list[Download], in the order of the queue
    POST   /downloads            Pull          Download; /events say how far it is
    POST   /downloads/{id}/pause               Download
    POST   /downloads/{id}/resume              Download
    POST   /downloads/{id}/move  MoveDownload  list[Download]
    DELETE /downloads/{id}                     204; what came of one that is not done is deleted
    POST   /removals/plan        RemoveModel   Removal, nothing is changed
    POST   /removals             RemoveModel   Removal, the files are gone or in the trash
    POST   /removals/{id}/undo                 ModelInfo, since the gateway started
    GET    /library/job                        LibraryJob or null: what runs, or ran last
    DELETE /library/job                        204, calls it off
    POST   /library/verify       VerifyModel   LibraryJob; /events say how far it is
    POST   /library/duplicates FindDuplicates  LibraryJob
    POST   /library/reclaim  ReclaimDuplicates LibraryJob: what was found shares its space
    POST   /library/separate                   LibraryJob: what shares it is copied apart again
    GET    /library/disk                       DiskUse
    POST   /library/empty-trash  EmptyTrash    LibraryJob: models in the trash are deleted for good
    GET    /library/updates                    list[ModelUpdate], of the models that came from a hub
    POST   /quantizations/plan QuantizeModel   QuantizePlan, nothing is done
    POST   /quantizations    QuantizeModel     QuantizeChanged; /events say how far it is
    GET    /quantizations/job                  QuantizeChanged or null: what runs, or ran last
    DELETE /quantizations/job                  204, stops it; the next run goes on from there
    GET    /update                             UpdateState of Roundhouse itself; nobody is asked
    POST   /update/check                       UpdateState, after asking
    POST   /update/skip          SkipUpdate    UpdateState
    POST   /update/install       InstallUpdate UpdateJob; /events say how far it is
    POST   /update/rollback                    UpdateJob
    DELETE /update/job                         204, calls it off
    GET    /chats?query=&limit=&before=&shelf= list[ChatSummary], those that are pinned first; also ?folder=&tag=
    POST   /chats                NewChat       Chat
    POST   /chats/import         ChatImport    ChatImportResult
    GET    /chats/tags                         list[TagCount]
    GET    /chats/folders                      list[ChatFolder], by name
    POST   /chats/folders        NewChatFolder ChatFolder
    GET    /chats/folders/{id}                 ChatFolder
    PATCH  /chats/folders/{id} ChatFolderPatch ChatFolder
    DELETE /chats/folders/{id}                 204, its chats stay; ?with_chats=true moves them to the trash
    GET    /chats/{id}                         Chat
    PATCH  /chats/{id}           ChatPatch     Chat
    DELETE /chats/{id}                         204, can be undone; ?for_good=true deletes what is in the trash
    POST   /chats/{id}/restore                 Chat
    POST   /chats/{id}/fork      ForkChat      Chat
    POST   /chats/{id}/messages/{message}/versions NewVersion  Message, and nobody is asked
    DELETE /chats/{id}/messages/{message}      204, can be undone
    POST   /chats/{id}/messages/{message}/restore  Chat
    POST   /chats/{id}/turns     NewTurn       Turn
    GET    /chats/{id}/answers/{message}       SSE of AnswerEvent, from ?offset= on
    POST   /chats/{id}/answers/{message}/stop  Message
    POST   /chats/{id}/answers/{message}/calls/{call} DecideToolCall  Message: allows or refuses a call that waits
    POST   /tokens               CountText     TextTokens, counted where the model is loaded, else estimated
    POST   /attachments?name=    the file      Attachment, until it is sent or a day has passed
    GET    /attachments/{id}                   Attachment
    GET    /attachments/{id}/content?part=     the file as it came, or what models get of it (AttachmentPart)
    DELETE /attachments/{id}                   204, for one that was not sent
    GET    /presets                            list[ChatPreset], by name
    POST   /presets              SavePreset    ChatPreset
    POST   /presets/import       PresetImport  PresetImportResult
    DELETE /presets/{name}                     204
    POST   /plan                 PlanRequest   MachineAdvice
    POST   /estimate         EstimateRequest   Estimate
    GET    /calibration                        list[Calibration]
    DELETE /calibration                        204, forgets what was measured
    POST   /calibrate                          202; /events say how far it is
    DELETE /calibrate                          204, stops it
    GET    /draft-trials                       list[DraftTrial]
    POST   /draft-trials     TryDrafts         202; /events say how far it is
    DELETE /draft-trials                       204, stops it
    GET    /loads                              list[EstimateAccuracy], newest first
    GET    /doctor                             the report, see docs/reference/advisor.md
    GET    /bundle                             DiagnosticBundle, with the report in it, see docs/guide/security.md
    POST   /guide                AskGuide      GuideAnswer, from what was looked up
    GET    /benchmarks[?model=&limit=]         list[BenchmarkReceipt], newest first, without single requests
    POST   /benchmarks         StartBenchmark  BenchmarkChanged; /events say how far it is
    GET    /benchmarks/job                     BenchmarkChanged or null: what runs, or ran last
    DELETE /benchmarks/job                     204, stops it
    GET    /benchmarks/accuracy                PredictionAccuracy: how far predicted speeds were off
    GET    /benchmarks/{id}                    BenchmarkReceipt
    GET    /benchmarks/{id}/file?format=       BenchmarkFile: as vLLM, GuideLLM or llama-bench write theirs
    DELETE /benchmarks/{id}                    204
    POST   /tunings          StartTune         TuneChanged; /events say how far it is
    GET    /tunings/job                        TuneChanged or null: what runs, or ran last, with its result
    DELETE /tunings/job                        204, stops it
    POST   /quantization-loss MeasureLoss      LossResult, after two loads and a hundred short requests
    GET    /preflights[?model=&tool=]          list[ToolPreflight]: how a model would do with coding agents here
    GET    /races/plan?model=[&workload=]      RacePlan: who could run it here, what installing and measuring takes
    POST   /races            StartRace         RaceChanged; /events say how far it is
    GET    /races/job                          RaceChanged or null: what runs, or ran last, with its result
    DELETE /races/job                          204, stops it
    POST   /trials          StartTrial         TrialChanged; /events say how far it is
    GET    /trials[?model=]                    list[TrialResult], newest first: without words
    GET    /trials/job                         TrialChanged or null: what runs, or ran last, with its result
    DELETE /trials/job                         204, stops it
    GET    /trials/words                       list[TrialWords]: its answers, as long as the inspector keeps the words
    POST   /trials/switch                      TrialSwitch: the second takes the first's place
    POST   /trials/undo                        TrialSwitch
    GET    /tools                              list[ToolInfo], those found here first
    POST   /tools/{id}/preview   WireTool      ToolChange, nothing is written
    POST   /tools/{id}/connect   WireTool      ToolChange
    POST   /tools/{id}/undo                    ToolChange
    POST   /tools/{id}/launch    WireTool      ToolLaunch, how it is started wired for one run
    POST   /tools/{id}/probe     WireTool      ToolProbe
    GET    /mcp/servers                        list[McpServer], by name: programs whose tools models may call
    GET    /mcp/servers/{server}               McpServer
    POST   /mcp/servers          NewMcpServer  McpServer; with a key it waits until a person confirms it
    POST   /mcp/servers/import  McpServersImport  McpImportResult
    PATCH  /mcp/servers/{server} McpServerPatch McpServer
    DELETE /mcp/servers/{server}               204
    POST   /mcp/servers/{server}/start         McpServer, with its tools
    POST   /mcp/servers/{server}/tools/{tool}/permission SetMcpPermission  McpTool
    POST   /mcp/servers/{server}/tools/{tool}/call McpCall  McpResult
    GET    /agents                             AgentList: coding agents that can be hosted, and whether they may run
    GET    /agents/sessions                    list[AgentSession], newest first
    POST   /agents/sessions  NewAgentSession   AgentSession, before its agent is ready
    GET    /agents/sessions/{session}          AgentTranscript
    GET    /agents/sessions/{session}/events   SSE of AgentEvent: all that happened, then what happens
    POST   /agents/sessions/{session}/prompts AgentPromptText  202 and AgentSession
    POST   /agents/sessions/{session}/cancel   AgentSession
    POST   /agents/sessions/{session}/permissions/{entry} DecideAgentPermission  AgentSession
    POST   /agents/sessions/{session}/resume   AgentSession, where its agent takes sessions up again
    POST   /agents/sessions/{session}/end      AgentSession
    DELETE /agents/sessions/{session}          204
    GET    /collections                        list[Collection], by name; with a key those that it may use
    POST   /collections          NewCollection Collection; with a key none can be added, changed or removed
    POST   /collections/search   PassageQuery  PassageResults
    GET    /collections/{collection}           Collection, by id or name
    PATCH  /collections/{collection} CollectionPatch Collection
    DELETE /collections/{collection}           204, its folders stay
    POST   /collections/{collection}/index     Collection, its folders are looked at now
    GET    /collections/{collection}/files?limit=&offset= list[DocumentFile], by path
    GET    /collections/{collection}/files/{file}/text DocumentText, in which passages count characters
    GET    /connections?limit=                 ConnectionList, newest first: whom Roundhouse called, when and why
    DELETE /connections                        204, forgets them
    GET    /kept-prompts                       WarmPrompts: what engines need not read again, the last used first
    DELETE /kept-prompts?model=&key=           204, all without a query
    DELETE /kept-prompts/{id}                  204
    GET    /requests?limit=&model=&outcome=    list[RequestInfo], newest first
    DELETE /requests                           204, forgets those that are over
    GET    /requests/{id}                      RequestDetail
    POST   /requests/{id}/cancel               RequestInfo
    GET    /traces                             TracesState; the headers' values are never told
    POST   /traces/headers    SetTraceHeaders  TracesState
    DELETE /traces/headers                     204
    POST   /traces/test                        TracesState, one span was sent
    GET    /usage                              Usage
    GET    /usage/keys?days=                   list[KeyDay], the newest day first
"""

import msgspec

PREFIX = "/roundhouse/v1"
API_VERSION = 1
"""Raised when a reply changes in a way an older client cannot read; also the `version` field of `--json` output."""

EXIT_ALREADY_RUNNING = 3
"""Exit code of a gateway that found another one running: its caller has only to look for that one."""

EXIT_NO_KEY = 4
"""Exit code of a gateway that was to listen beyond this computer and has no access key."""

EXIT_DISK_FULL = 5
"""Exit code of a gateway that could not write what it needs to start: on a full disk its log cannot say so."""

GUIDE = "guide"
"""Name of the built-in help model."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway about itself. `notice` is set when it could not take the port it was told to."""

    version: str
    api_version: int
    pid: int
    url: str
    """Base of the public endpoint on this computer, e.g. "http://127.0.0.1:11434"."""
    reachable_at: list[str] = []
    """Its bases for other computers; empty while only this one can reach it."""
    asks_for_keys: bool = False
    """Whether every request needs an access key."""
    started_at: float
    notice: str = ""
    paused_since: float | None = None
    """Unix seconds; None unless models are kept out of memory."""
    resident_bytes: int | None = None
    data_dir: str = ""
    models_dir: str = ""
    log_dir: str = ""


class PortFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a running gateway leaves on disk for its clients (mode 0600)."""

    pid: int
    created_at: float
    """Creation time of the process, Unix seconds: a pid alone can be reused."""
    url: str
    token: str
    version: str


# Settings as they travel: the row of the table and its present value.

SettingValue = bool | int | float | str | list[str]


class SettingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `kind` is "bool", "int", "float", "text", "choice" or "list"; `source` says what set the value."""

    name: str
    section: str
    title: str
    help: str
    kind: str
    default: SettingValue
    value: SettingValue
    choices: list[str] = []
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    needs_restart: bool = False
    source: str = "default"
    """"default", "file" or "environment"; one set by the environment cannot be changed here."""
