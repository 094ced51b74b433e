package oipgrpc

import (
	"errors"
	"io"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/mem"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph/tensor"
)

// wireOf is a stream that a message comes from, in frames of any sizes.
type wireOf struct {
	b     []byte
	r     *rand.Rand
	asked int
}

func (w *wireOf) ReadMessageHeader([]byte) error { return nil }

func (w *wireOf) RecvCompress() string { return "" }

func (w *wireOf) Read(n int) (mem.BufferSlice, error) {
	w.asked += n
	var out mem.BufferSlice
	for n > 0 {
		if len(w.b) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		k := min(1+w.r.IntN(16<<10), n, len(w.b))
		frame := buffers.Get(k)
		copy(*frame, w.b)
		out = append(out, mem.NewBuffer(frame, &buffers))
		w.b, n = w.b[k:], n-k
	}
	return out, nil
}

// tally counts up to a limit.
type tally struct{ n, limit int64 }

var errTally = errors.New("beyond the limit")

func (t *tally) Reserve(n int64) error {
	if t.n+n > t.limit {
		return errTally
	}
	t.n += n
	return nil
}

func (t *tally) Hold(int64) error { return nil }

// numbers returns n bytes of any values.
func numbers(r *rand.Rand, n int) *tensor.Tensor {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return &tensor.Tensor{DType: tensor.Uint8, Shape: []int{n}, Data: b}
}

var _ = Describe("a message on the way", func() {
	It("is read as one that is there, whatever its frames, and counted once", func() {
		r := rand.New(rand.NewPCG(1, 2))
		for range 40 {
			q := &oip.Request{Model: "m", ID: "7"}
			for range 1 + r.IntN(3) {
				q.Inputs = append(q.Inputs, oip.Named{Name: "x", Tensor: numbers(r, 1+r.IntN(1<<(8+r.IntN(15))))})
			}
			list, err := encodeRequest(q)
			Expect(err).NotTo(HaveOccurred())
			b := list.Materialize()
			if len(b) > 3000 { // with contents of a size for which a field has memory of its own
				typed := appendMessage(appendShape(appendText(appendText(nil, 1, "c"), 2, "BYTES"), 3, []int{1}), 5, appendMessage(nil, 8, b[len(b)-2000:]))
				q.Inputs = append(q.Inputs, oip.Named{Name: "c"})
				b = append(appendMessage(nil, 5, typed), b...)
			}
			count := &tally{limit: int64(len(b))}
			m, c := &message{from: &wireOf{b: b, r: r}, left: len(b), count: count}, &call{}
			Expect(c.read(m)).To(Succeed())
			Expect(count.n).To(BeEquivalentTo(len(b)))
			m.free()
			whole := &call{}
			Expect(whole.read(arrived(mem.BufferSlice{mem.SliceBuffer(b)}))).To(Succeed())
			Expect(c.ID).To(Equal("7"))
			Expect(c.inputs).To(HaveLen(len(q.Inputs)))
			for i := range c.inputs {
				Expect(c.inputs[i]).To(Equal(whole.inputs[i]))
			}
			Expect(c.raw).To(HaveLen(len(whole.raw)))
			for i := range c.raw {
				Expect(c.raw[i].Data).To(Equal(whole.raw[i].Data))
			}
		}
	})

	It("is not asked for beyond what may be counted", func() {
		r := rand.New(rand.NewPCG(3, 4))
		list, err := encodeRequest(&oip.Request{Model: "m", Inputs: []oip.Named{{Name: "x", Tensor: numbers(r, 20<<20)}}})
		Expect(err).NotTo(HaveOccurred())
		b := list.Materialize()
		from := &wireOf{b: b, r: r}
		m := &message{from: from, left: len(b), count: &tally{limit: 10 << 20}}
		Expect((&call{}).read(m)).To(MatchError(errTally))
		Expect(from.asked).To(BeNumerically("<=", 10<<20))
	})

	It("is not believed to be as long as it says", func() {
		r := rand.New(rand.NewPCG(5, 6))
		said := appendText(nil, 1, "m")
		said = append(said, 0x3a, 0x80, 0x80, 0x80, 0x20) // raw contents of 64 MiB
		count := &tally{limit: 1 << 30}
		m := &message{from: &wireOf{b: append(said, make([]byte, 1<<20)...), r: r}, left: len(said) + 64<<20, count: count}
		Expect((&call{}).read(m)).To(MatchError(io.ErrUnexpectedEOF))
		Expect(count.n).To(BeNumerically("<=", 4<<20), "some more than what has come")
	})
})
