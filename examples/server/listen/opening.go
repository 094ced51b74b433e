package listen

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// kind is what a connection is for.
type kind int

const (
	undecided kind = iota // there is more to come
	onlyCalls             // gRPC, by a client that sends nothing else
	anything
)

// opening is what a client sends on a new connection up to its first request, as far as that has come.
type opening struct {
	b    []byte
	seen int // of b: whole frames

	settings bool // the client's are there
	greeted  bool // ours were sent
	ack      int  // where the client acknowledges those in b; 0 where it has not
	fields   int  // where those of the first request begin in b; 0 where they have not come
}

// maxFields bounds what is looked at of a connection until its first request: ordinary clients send some hundreds of bytes.
const maxFields = 32 << 10

// look goes on with what has been added to b. All but calls of gRPC for certain are net/http's, faults too, which it answers.
func (o *opening) look() kind {
	n := min(len(o.b), len(http2.ClientPreface))
	switch {
	case string(o.b[:n]) != http2.ClientPreface[:n]:
		return anything
	case n < len(http2.ClientPreface):
		return undecided
	}
	o.seen = max(o.seen, n)
	for {
		frame := o.next()
		if frame == nil && len(o.b) < maxFields {
			return undecided
		}
		if frame == nil || !o.expects(frame) {
			return anything
		}
		if o.fields > 0 && http2.Flags(frame[4]).Has(http2.FlagHeadersEndHeaders) { // which has the same bit where they are continued
			break
		}
	}
	if native(o.b[o.fields:o.seen]) {
		return onlyCalls
	}
	return anything
}

// frameHead is how many bytes of a frame stand before its content: a length of 3, a type, flags, and a stream of 4.
const frameHead = 9

// next returns the next frame; nil where it is not there as a whole.
func (o *opening) next() []byte {
	b := o.b[o.seen:]
	if len(b) < frameHead {
		return nil
	}
	n := frameHead + int(binary.BigEndian.Uint32(b)>>8)
	if len(b) < n {
		return nil
	}
	o.seen += n
	return b[:n]
}

// expects notes a frame that has just been seen, and reports whether it may stand there up to the end of the first request's fields.
func (o *opening) expects(frame []byte) bool {
	at := o.seen - len(frame)
	switch t := http2.FrameType(frame[3]); {
	case t == http2.FrameSettings && !o.settings:
		o.settings = !acknowledges(frame)
		return o.settings
	case !o.settings:
		return false
	case o.fields > 0:
		return t == http2.FrameContinuation
	case t == http2.FrameHeaders:
		o.fields = at
		return true
	case t == http2.FrameSettings:
		return o.acknowledged(frame, at)
	default:
		return t == http2.FrameWindowUpdate || t == http2.FramePing || t == http2.FramePriority
	}
}

func acknowledges(settings []byte) bool { return http2.Flags(settings[4]).Has(http2.FlagSettingsAck) }

// acknowledged notes a frame of settings that acknowledges ours.
func (o *opening) acknowledged(frame []byte, at int) bool {
	if !o.greeted || o.ack > 0 || len(frame) > frameHead || !acknowledges(frame) {
		return false
	}
	o.ack = at
	return true
}

// settled reports whether no acknowledgement is to come that the next reader does not expect. It goes on with what has been added to
// b, behind the first request.
func (o *opening) settled() bool {
	for o.greeted && o.ack == 0 {
		frame := o.next()
		if frame == nil {
			return false
		}
		if http2.FrameType(frame[3]) == http2.FrameSettings {
			o.acknowledged(frame, o.seen-len(frame))
		}
	}
	return true
}

// rest returns what the next reader is to have: all but what answers our settings.
func (o *opening) rest() []byte {
	if o.ack == 0 {
		return o.b
	}
	return slices.Delete(o.b, o.ack, o.ack+frameHead)
}

// native reports whether a request's fields are those of a client that speaks gRPC alone on its connection: a gRPC library by its own
// name, and nobody in between who may send others' requests on the same connection.
func native(frames []byte) bool {
	r := http2.NewFramer(nil, bytes.NewReader(frames))
	r.ReadMetaHeaders, r.MaxHeaderListSize = hpack.NewDecoder(4096, nil), maxHeader
	f, err := r.ReadFrame()
	if err != nil {
		return false
	}
	m, ok := f.(*http2.MetaHeadersFrame)
	if !ok || m.Truncated {
		return false
	}
	content, library := false, false
	for _, x := range m.Fields {
		switch {
		case x.Name == "content-type":
			of, _, _ := strings.Cut(x.Value, ";")
			of, _, _ = strings.Cut(of, "+")
			content = of == "application/grpc"
		case x.Name == "user-agent":
			library = strings.HasPrefix(x.Value, "grpc-") || strings.Contains(x.Value, " grpc-")
		case forwards(x.Name):
			return false
		}
	}
	return content && library
}

// forwards reports whether a field is one that proxies add.
func forwards(name string) bool {
	return name == "via" || name == "forwarded" || name == "x-real-ip" || strings.HasPrefix(name, "x-forwarded-") || strings.HasPrefix(name, "x-envoy-")
}
