"""Spans as bytes: what OpenTelemetry's own classes make of the same span, byte for byte."""

import msgspec

from app.gateway.watching.trace_encoding import Span, SpanEvent, encode_request, encode_resource, encode_span
from tests.collector import read_spans

BY_THE_LIBRARY = bytes.fromhex(
    "0a92040a1e0a1c0a0c736572766963652e6e616d65120c0a0a726f756e64686f75736512ef030a0c0a0a726f756e64686f75"
    "736512de030a104bf92f3577b34da6a3ce929d0e0e4736120800f067aa0ba902b71a03613d31220811121314151617182a0b"
    "636861742067726fc39f6530033915aded23a3a37b18411577885fa3a37b184a0c0a047465787412040a02c3b64a0b0a0565"
    "6d70747912020a004a090a03796573120210014a080a026e6f120210004a0a0a047a65726f120218004a0f0a046d616e7912"
    "07188080808080204a130a046c657373120b18ffffffffffffffffff014a110a0468616c66120921000000000000e03f4a1c"
    "0a046c69737412142a120a060a0473746f700a080a066c656e6774685ae7010900455f3aa3a37b1812067265706561741ad3"
    "010a0377687912cb010ac8017878787878787878787878787878787878787878787878787878787878787878787878787878"
    "7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878"
    "7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878"
    "7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878"
    "7878787878787878787878787a0d120962726f6b65206f66661802850101030000"
)
"""Made by opentelemetry-proto 1.45.2 with protobuf 7.36.2, of the same values."""
SPAN = Span(
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    span_id="00f067aa0ba902b7",
    parent_id="1112131415161718",
    state="a=1",
    name="chat große",
    kind=3,
    start_ns=1764183600123456789,
    end_ns=1764183601123456789,
    attributes={
        "text": "ö",
        "empty": "",
        "yes": True,
        "no": False,
        "zero": 0,
        "many": 2**40,
        "less": -1,
        "half": 0.5,
        "list": ("stop", "length"),
    },
    events=(SpanEvent("repeat", 1764183600500000000, {"why": "x" * 200}),),
    is_error=True,
    error="broke off",
    has_remote_parent=True,
)


def test_a_span_is_encoded_as_the_library_does() -> None:
    encoded_request = encode_request(encode_resource({"service.name": "roundhouse"}), [encode_span(SPAN)])
    assert encoded_request == BY_THE_LIBRARY


def test_the_tests_collector_reads_what_the_library_wrote() -> None:
    (span,) = read_spans(BY_THE_LIBRARY)
    assert (span.trace_id, span.span_id, span.parent_id) == (SPAN.trace_id, SPAN.span_id, SPAN.parent_id)
    assert (span.name, span.kind, span.state, span.flags) == ("chat große", 3, "a=1", 0x301)
    assert span.attributes["list"] == ["stop", "length"]
    assert (span.attributes["half"], span.attributes["many"], span.attributes["no"]) == (0.5, 2**40, False)
    assert span.events == {"repeat": {"why": "x" * 200}}
    assert (span.is_error, span.resource) == (True, {"service.name": "roundhouse"})


def test_words_that_are_no_unicode_are_sent_all_the_same() -> None:
    assert b"chat ?" in encode_span(msgspec.structs.replace(SPAN, name="chat \ud800"))
