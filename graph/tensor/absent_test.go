package tensor_test

import (
	"bytes"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

var _ = It("a nil tensor is an error where there are errors, which wraps ErrShape", func() {
	var t *tensor.Tensor
	second := func(_ any, err error) error { return err }
	_, _, head := tensor.AppendProtoHead(nil, "x", t)
	for _, err := range []error{
		t.Check(), second(tensor.AppendProto(nil, "x", t)), head, second(tensor.Convert(t, tensor.Float32, nil)), tensor.Decode(nil, t),
		tensor.DecodeInts(nil, t), tensor.Encode(t, nil), tensor.EncodeInts(t, nil), tensor.WriteNPY(&bytes.Buffer{}, t),
		tensor.WriteNPZ(&bytes.Buffer{}, []tensor.Named{{Name: "x"}}, tensor.Stored),
	} {
		Expect(err).To(MatchError(tensor.ErrShape))
	}
})
