package listen

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// opens returns what a client opens with: its settings, and a request with fields.
func opens(acknowledge bool, fields ...string) []byte {
	var b, block bytes.Buffer
	b.WriteString(http2.ClientPreface)
	w, e := http2.NewFramer(&b, nil), hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = w.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	_ = w.WriteWindowUpdate(0, 1<<20)
	if acknowledge {
		_ = w.WriteSettingsAck()
	}
	half := block.Len() / 2
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()[:half], PadLength: 3})
	_ = w.WriteContinuation(1, true, block.Bytes()[half:])
	return b.Bytes()
}

// FuzzOpening looks at any bytes, as a whole and in pieces: both are for the same server, which has all of them, but for an
// acknowledgement of what it has not sent.
func FuzzOpening(f *testing.F) {
	call := []string{":method", "POST", ":scheme", "http", ":path", "/a/b", "content-type", "application/grpc+proto", "user-agent", "grpc-go/1"}
	for _, fields := range [][]string{call, call[:8], append(call[:8:8], "user-agent", "curl"), append(call, "x-forwarded-for", "::1")} {
		f.Add(opens(false, fields...), uint8(7), false)
		f.Add(opens(true, fields...), uint8(40), true)
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint8(1), false)
	f.Add(append([]byte(http2.ClientPreface), 0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0), uint8(9), false)
	f.Fuzz(func(t *testing.T, b []byte, size uint8, greeted bool) {
		b = b[:min(len(b), maxFields-1)]
		whole, cut := opening{b: bytes.Clone(b), greeted: greeted}, opening{greeted: greeted}
		found, part := whole.look(), undecided
		for i := 0; i < len(b); i += int(size) + 1 {
			cut.b = append(cut.b, b[i:min(len(b), i+int(size)+1)]...)
			if part == undecided {
				part = cut.look()
			} else {
				cut.settled()
			}
		}
		whole.settled()
		cut.settled()
		if len(b) > 0 && (found != part || whole.ack != cut.ack) {
			t.Fatalf("%v, acknowledged at %d; in pieces %v, at %d", found, whole.ack, part, cut.ack)
		}
		if found == onlyCalls && !bytes.HasPrefix(b, []byte(http2.ClientPreface)) {
			t.Fatal("calls of gRPC without the preface of HTTP/2")
		}
		want := b
		if at := whole.ack; at > 0 {
			want = append(bytes.Clone(b[:at]), b[at+frameHead:]...)
		}
		if rest := whole.rest(); !bytes.Equal(rest, want) {
			t.Fatalf("%q is left of %q", rest, b)
		}
	})
}
