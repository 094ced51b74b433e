package rest

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/carve-dev/carve/examples/server/oip"
)

// heading is what the JSON of a request says. Nothing changes it once it has been read, since requests share it.
type heading struct {
	text    string      // the JSON, of those that are kept
	request oip.Request // without model and inputs
	inputs  []tensorJSON
	want    wish
}

// headings keeps some that were read. Clients that send tensors in binary send the same JSON over and over, and reading it takes as long as
// all else that is done for a small request but its run.
type headings struct {
	kept [64]atomic.Pointer[heading] // by hash
	seed maphash.Seed
}

// maxHeading bounds the JSON of those that are kept, in bytes.
const maxHeading = 1 << 10

// of returns what a text says.
func (h *headings) of(text []byte) (*heading, error) {
	if len(text) > maxHeading {
		return readHeading(text)
	}
	at := &h.kept[maphash.Bytes(h.seed, text)%uint64(len(h.kept))]
	if x := at.Load(); x != nil && x.text == string(text) {
		return x, nil
	}
	x, err := readHeading(text)
	if err == nil && x.recurs() {
		x.text = string(text)
		at.Store(x)
	}
	return x, err
}

// recurs reports whether others may be the same: it has neither data nor an id of its own.
func (x *heading) recurs() bool {
	for i := range x.inputs {
		if x.inputs[i].data != "" {
			return false
		}
	}
	return x.request.ID == ""
}

// readHeading reads the JSON of a request.
func readHeading(text []byte) (*heading, error) {
	request, err := parse(text)
	if err != nil {
		return nil, oip.Errorf(oip.InvalidArgument, "failed to parse the request JSON: %w", err)
	}
	x := &heading{}
	in := &x.request
	err = members(request, "the request", func(name string, v gjson.Result) (err error) {
		switch name {
		case "id":
			in.ID, err = str(v, name)
		case "parameters":
			err = members(v, name, func(name string, v gjson.Result) error { return requestParameter(in, &x.want, name, v) })
		case "inputs":
			x.inputs = x.inputs[:0]
			err = elements(v, name, func(v gjson.Result) error {
				if len(x.inputs) == oip.MaxTensors {
					return oip.TooMany(name)
				}
				x.inputs = append(x.inputs, tensorJSON{})
				return x.inputs[len(x.inputs)-1].read(v)
			})
		case "outputs":
			in.Outputs, x.want.binary = in.Outputs[:0], x.want.binary[:0]
			err = elements(v, name, func(v gjson.Result) error { return output(in, &x.want, v) })
		}
		return err
	})
	return x, err
}
