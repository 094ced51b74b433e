package oipgrpc

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph/tensor"
)

// FuzzCall reads any bytes as a request, in one buffer and in several: both are the same, and what is read is well formed.
func FuzzCall(f *testing.F) {
	r := &oip.Request{Model: "m", Version: "1", ID: "7", Outputs: []oip.Output{{Name: "y", Classes: 3}}, Inputs: []oip.Named{
		{Name: "x", Tensor: tensor.From([]float32{1, 2, 3}, 1, 3)}, {Name: "s", Tensor: tensor.FromStrings([]string{"a", ""}, 2)},
	}, Parameters: oip.Parameters{Priority: 2, Sequence: oip.SequenceID{Text: "q"}, Start: true}}
	list, err := encodeRequest(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(list.Materialize(), uint8(3))
	typed := appendMessage(appendShape(appendText(appendText(nil, 1, "x"), 2, "INT32"), 3, []int{2}), 5, appendMessage(nil, 2, []byte{1, 2}))
	f.Add(appendMessage(appendText(nil, 1, "m"), 5, typed), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		whole, cut := &call{}, &call{}
		var pieces mem.BufferSlice
		for piece := range bytesIn(b, int(size)+1) {
			pieces = append(pieces, mem.SliceBuffer(piece))
		}
		err1, err2 := whole.read(arrived(mem.BufferSlice{mem.SliceBuffer(b)})), cut.read(arrived(pieces))
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("%v, and in pieces %v", err1, err2)
		}
		if err1 != nil {
			return
		}
		err1, err2 = whole.tensors(1<<20, unlimited{}), cut.tensors(1<<20, unlimited{})
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("%v, and in pieces %v", err1, err2)
		}
		if err1 != nil {
			return
		}
		for i, in := range whole.Inputs {
			if err := in.Tensor.Check(); err != nil {
				t.Error(err)
			}
			a, err1 := oip.Raw(in.Tensor)
			b, err2 := oip.Raw(cut.Inputs[i].Tensor)
			if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
				t.Errorf("input %d: %x %v, and in pieces %x %v", i, a, err1, b, err2)
			}
		}
		whole.Recycle()
		cut.Recycle()
	})
}

// unlimited is a counter.
type unlimited struct{}

func (unlimited) Reserve(int64) error { return nil }

func (unlimited) Hold(int64) error { return nil }

// bytesIn yields pieces of so many bytes.
func bytesIn(b []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(size, len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}
