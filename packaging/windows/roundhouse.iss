; Inno Setup 6.3: one person's installer, no administrator. Tried with stand-ins for the programs; see docs/guide/installing.md.
;   iscc /DVersion=0.1.0 packaging\windows\roundhouse.iss
; reads build\package\roundhouse, which `python packaging/build.py freeze` makes, and writes dist\.

#ifndef Version
  #error Name the version: /DVersion=0.1.0
#endif

[Setup]
AppId={{6E2B2C5B-0C2B-4E0B-9B0E-3C1B5B8D7A11}
AppName=Roundhouse
AppVersion={#Version}
AppPublisher=The Roundhouse contributors
DefaultDirName={localappdata}\Programs\Roundhouse
DefaultGroupName=Roundhouse
DisableProgramGroupPage=yes
PrivilegesRequired=lowest
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0.17763
Compression=lzma2/max
SolidCompression=yes
WizardStyle=modern
LicenseFile=..\..\LICENSE
OutputDir=..\..\dist
OutputBaseFilename=roundhouse-{#Version}-windows-x86_64
UninstallDisplayIcon={app}\roundhouse-window.exe
ChangesEnvironment=yes
ChangesAssociations=yes
CloseApplications=yes

[Tasks]
Name: path; Description: "Let me type roundhouse in a terminal (PATH)"; Flags: unchecked
Name: login; Description: "Open Roundhouse when I log in"; Flags: unchecked
Name: gguf; Description: "Open model files (.gguf) with Roundhouse"

[Files]
Source: ..\..\build\package\roundhouse\*; DestDir: {app}; Flags: recursesubdirs ignoreversion

[InstallDelete]
Type: filesandordirs; Name: {app}\_internal

[UninstallDelete]
Type: files; Name: {app}\installation.json

[Icons]
Name: {group}\Roundhouse; Filename: {app}\roundhouse-window.exe

[Registry]
Root: HKCU; Subkey: Software\Classes\roundhouse; ValueType: string; ValueData: "URL:Roundhouse"; Flags: uninsdeletekey
Root: HKCU; Subkey: Software\Classes\roundhouse; ValueType: string; ValueName: "URL Protocol"; ValueData: ""
Root: HKCU; Subkey: Software\Classes\roundhouse\shell\open\command; ValueType: string; ValueData: """{app}\roundhouse-window.exe"" ""%1"""
Root: HKCU; Subkey: Software\Classes\.gguf; Flags: uninsdeletekeyifempty; Tasks: gguf
Root: HKCU; Subkey: Software\Classes\.gguf\OpenWithProgids; ValueType: string; ValueName: Roundhouse.gguf; ValueData: ""; Flags: uninsdeletevalue uninsdeletekeyifempty; Tasks: gguf
Root: HKCU; Subkey: Software\Classes\Roundhouse.gguf; ValueType: string; ValueData: "AI model"; Flags: uninsdeletekey; Tasks: gguf
Root: HKCU; Subkey: Software\Classes\Roundhouse.gguf\shell\open\command; ValueType: string; ValueData: """{app}\roundhouse-window.exe"" ""%1"""; Tasks: gguf
Root: HKCU; Subkey: Software\Microsoft\Windows\CurrentVersion\Run; ValueType: string; ValueName: Roundhouse; ValueData: """{app}\roundhouse-window.exe"""; Flags: uninsdeletevalue; Tasks: login

[Run]
Filename: {app}\roundhouse-window.exe; Description: "Open Roundhouse"; Flags: nowait postinstall skipifsilent

[Code]
const
  EnvironmentKey = 'Environment';

// Leaves everything else of PATH as it is, down to how it is written.
procedure ChangePath(IsWanted: Boolean);
var
  Before, After, Folder: String;
  IsThere: Boolean;
begin
  Folder := ExpandConstant('{app}');
  if not RegQueryStringValue(HKCU, EnvironmentKey, 'Path', Before) then
    Before := '';
  IsThere := Pos(';' + Folder + ';', ';' + Before + ';') > 0;
  if IsThere = IsWanted then
    Exit;
  if IsWanted and (Before = '') then
    After := Folder
  else if IsWanted then
    After := Before + ';' + Folder
  else
  begin
    After := ';' + Before + ';';
    StringChangeEx(After, ';' + Folder + ';', ';', True);
    After := Copy(After, 2, Length(After) - 2);
  end;
  if After = '' then
    RegDeleteValue(HKCU, EnvironmentKey, 'Path')
  else
    RegWriteExpandStringValue(HKCU, EnvironmentKey, 'Path', After);
end;

procedure NoteInstallation();
begin
  SaveStringToFile(ExpandConstant('{app}\installation.json'), '{"kind":"exe","version":"{#Version}"}', False);
end;

procedure CurStepChanged(Step: TSetupStep);
begin
  if Step = ssPostInstall then
    NoteInstallation();
  if (Step = ssPostInstall) and WizardIsTaskSelected('path') then
    ChangePath(True);
end;

procedure CurUninstallStepChanged(Step: TUninstallStep);
var
  Code: Integer;
  Options: String;
begin
  if Step <> usUninstall then
    Exit;
  ChangePath(False);
  Options := 'uninstall --yes';
  if not UninstallSilent then
  begin
    if MsgBox('Remove your conversations and settings too?', mbConfirmation, MB_YESNO or MB_DEFBUTTON2) = IDYES then
      Options := Options + ' --purge';
    if MsgBox('Remove the models in Roundhouse''s own folder too? They can be large to fetch again.', mbConfirmation, MB_YESNO or MB_DEFBUTTON2) = IDYES then
      Options := Options + ' --models';
  end;
  Exec(ExpandConstant('{app}\roundhouse.exe'), Options, '', SW_HIDE, ewWaitUntilTerminated, Code);
end;
