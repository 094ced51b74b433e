package microsoft

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// ownOperators have files of their own, or are those that no standard operators say.
var ownOperators = []operator{
	groupQueryAttention,
	sparseAttention,
	linearAttention,
	causalConv,
	cropAndResize,
	wordConv,
	tokenizer,
	{name: "Inverse", schema: "in X:T\nout Y:T\nty T=double,float,float16", infer: inferInverse, eval: inverse},
	{name: "MurmurHash3", schema: "in X:T1\nout Y:T2\nat positive:int=1 seed:int=0\nty T1=double,float,int32,int64,string,uint32,uint64 T2=int32,uint32",
		infer: func(c *graph.Inference) error {
			c.SetType(0, graph.TensorType(hashType(c.Node), c.Shape(0)))
			return nil
		}, eval: murmur},
	{name: "NGramRepeatBlock", schema: "in input_ids:Tid scores:T\nout scores_out:T\nat ngram_size:int!\nty Tid=int64 T=float",
		infer: func(c *graph.Inference) error {
			c.SetType(0, c.Type(1))
			return nil
		}, eval: blockRepeats},
}

// kernel makes a graph.Placer of a function.
type kernel func(*call) error

// Eval implements graph.Evaluator.
func (k kernel) Eval(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	return k.EvalInto(ctx, n, inputs, nil)
}

// EvalInto implements graph.Placer.
func (k kernel) EvalInto(ctx context.Context, n *graph.Node, inputs []tensor.Value, out func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error)) ([]tensor.Value, error) {
	c := &call{ctx: ctx, n: n, in: make([]*tensor.Tensor, len(inputs)), out: make([]tensor.Value, len(n.Outputs)), place: out}
	for i, v := range inputs {
		if v == nil {
			continue
		}
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("%v: %w: input %d is no tensor", n, ErrShape, i)
		}
		c.in[i] = t
	}
	if err := k(c); err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	return c.out, nil
}

// call is one run of a kernel.
type call struct {
	ctx   context.Context
	n     *graph.Node
	in    []*tensor.Tensor
	out   []tensor.Value
	place func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error) // where results go; see graph.Placer
}

func (c *call) has(i int) bool { return i >= 0 && i < len(c.in) && c.in[i] != nil }

// input returns operand i, which has to be there with that rank; -1 is any.
func (c *call) input(i, rank int) (*tensor.Tensor, error) {
	if !c.has(i) || rank >= 0 && c.in[i].Rank() != rank {
		return nil, fmt.Errorf("%w: input %d has to have rank %d", ErrShape, i, rank)
	}
	return c.in[i], nil
}

// floats returns the elements of operand i as float32. They share its storage where they are.
func (c *call) floats(i int) ([]float32, error) {
	t := c.in[i]
	if t.DType != tensor.Float32 || !t.IsCompact() {
		var err error
		if t, err = tensor.Convert(t, tensor.Float32, nil); err != nil {
			return nil, err
		}
	}
	return tensor.Elements[float32](t), nil
}

// ints returns the elements of operand i.
func (c *call) ints(i int) ([]int64, error) {
	out := make([]int64, c.in[i].Len())
	return out, tensor.DecodeInts(out, c.in[i])
}

// result makes result i, of any content.
func (c *call) result(i int, dt tensor.DType, shape []int) (t *tensor.Tensor, err error) {
	if c.place != nil {
		t, err = c.place(i, dt, shape)
	}
	if err == nil && (t == nil || !t.IsAligned(dt.Size())) {
		t, err = tensor.New(dt, shape...)
	}
	c.out[i] = t
	return t, err
}

// put sets result i, where the node has it, to numbers of a type.
func (c *call) put(i int, dt tensor.DType, v []float32, shape ...int) error {
	if i >= len(c.out) || c.n.Outputs[i] == nil {
		return nil
	}
	t := tensor.From(v, shape...)
	if dt != tensor.Float32 {
		var err error
		if t, err = tensor.Convert(t, dt, nil); err != nil {
			return err
		}
	}
	c.out[i] = t
	return nil
}

func inferInverse(c *graph.Inference) error {
	s := c.Shape(0)
	if s != nil && len(s) < 2 {
		return fmt.Errorf("%w: a matrix of rank %d", ErrShape, len(s))
	}
	c.SetType(0, c.Type(0))
	return nil
}

// inverse inverts matrices by elimination with the greatest pivot of each column; what has none becomes NaN or infinite.
func inverse(c *call) error {
	x, err := c.input(0, -1)
	if err != nil {
		return err
	}
	rank := x.Rank()
	if rank < 2 || x.Shape[rank-1] != x.Shape[rank-2] {
		return fmt.Errorf("%w: %v is no square matrix", ErrShape, x)
	}
	n := x.Shape[rank-1]
	v := make([]float64, x.Len())
	if err := tensor.Decode(v, x); err != nil {
		return err
	}
	for at := 0; at+n*n <= len(v) && n > 0; at += n * n {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		invert(v[at:at+n*n], n)
	}
	y, err := c.result(0, x.DType, x.Shape)
	if err != nil {
		return err
	}
	return tensor.Encode(y, v)
}

// invert inverts a matrix in place.
func invert(a []float64, n int) {
	inv := make([]float64, n*n)
	for i := range n {
		inv[i*n+i] = 1
	}
	for col := range n {
		pivot := col
		for r := col + 1; r < n; r++ {
			if math.Abs(a[r*n+col]) > math.Abs(a[pivot*n+col]) {
				pivot = r
			}
		}
		if pivot != col {
			for j := range n {
				a[col*n+j], a[pivot*n+j] = a[pivot*n+j], a[col*n+j]
				inv[col*n+j], inv[pivot*n+j] = inv[pivot*n+j], inv[col*n+j]
			}
		}
		d := a[col*n+col]
		for j := range n {
			a[col*n+j] /= d
			inv[col*n+j] /= d
		}
		for r := range n {
			f := a[r*n+col]
			if r == col || f == 0 {
				continue
			}
			for j := range n {
				a[r*n+j] -= f * a[col*n+j]
				inv[r*n+j] -= f * inv[col*n+j]
			}
		}
	}
	copy(a, inv)
}

func hashType(n *graph.Node) tensor.DType {
	if n.Int("positive", 1) != 0 {
		return tensor.Uint32
	}
	return tensor.Int32
}

// murmur is MurmurHash3 in its 32-bit form of the bytes of each element.
func murmur(c *call) error {
	x, err := c.input(0, -1)
	if err != nil {
		return err
	}
	seed := uint32(c.n.Int("seed", 0)) // the low bits, as ONNX Runtime takes them
	t, err := c.result(0, hashType(c.n), x.Shape)
	if err != nil {
		return err
	}
	out, b := tensor.Of[uint32](t), x.Bytes()
	switch {
	case x.DType == tensor.String:
		for i, s := range x.Strings {
			out[i] = murmur32([]byte(s), seed)
		}
	case x.DType.Size() == 4:
		for i := range out {
			out[i] = murmurEnd(murmurWord(seed, binary.LittleEndian.Uint32(b[4*i:])), 4)
		}
	default:
		for i := range out {
			word := binary.LittleEndian.Uint64(b[8*i:])
			out[i] = murmurEnd(murmurWord(murmurWord(seed, uint32(word)), uint32(word>>32)), 8) // one half after the other
		}
	}
	return nil
}

const murmur1, murmur2 = 0xcc9e2d51, 0x1b873593

// murmurWord mixes the next 4 bytes into a hash.
func murmurWord(h, k uint32) uint32 {
	h ^= bits.RotateLeft32(k*murmur1, 15) * murmur2
	return bits.RotateLeft32(h, 13)*5 + 0xe6546b64
}

// murmurEnd returns the hash of so many bytes that have been mixed in.
func murmurEnd(h, n uint32) uint32 {
	h ^= n
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}

func murmur32(b []byte, seed uint32) uint32 {
	h, n := seed, uint32(len(b)) // the low bits are what is mixed in
	for ; len(b) >= 4; b = b[4:] {
		h = murmurWord(h, binary.LittleEndian.Uint32(b))
	}
	var k uint32
	for i, x := range b {
		k |= uint32(x) << (8 * i)
	}
	return murmurEnd(h^bits.RotateLeft32(k*murmur1, 15)*murmur2, n)
}

// blockRepeats gives -Inf to the tokens that would repeat a sequence of ngram_size tokens.
func blockRepeats(c *call) error {
	ids, err := c.input(0, 2)
	if err != nil {
		return err
	}
	scores, err := c.input(1, 2)
	if err != nil {
		return err
	}
	size := int(min(max(c.n.Int("ngram_size", 0), 0), 1<<30))
	if size == 0 || ids.Shape[0] != scores.Shape[0] {
		return fmt.Errorf("%w: ngram_size %d, %v and %v", ErrShape, size, ids, scores)
	}
	tokens := tensor.Elements[int64](ids)
	out, err := c.result(0, tensor.Float32, scores.Shape)
	if err != nil {
		return err
	}
	v := tensor.Of[float32](out)
	copy(v, tensor.Elements[float32](scores))
	length, words := ids.Shape[1], scores.Shape[1]
	for b := range ids.Shape[0] {
		row := tokens[b*length:][:length]
		last := row[max(0, length-size+1):] // that begin a sequence
		for i := 0; i+size <= length; i++ {
			if size > 1 && row[i] != last[0] || !slices.Equal(row[i:i+size-1], last) {
				continue
			}
			t := row[i+size-1]
			if t < 0 || t >= int64(words) {
				return fmt.Errorf("%w: token %d of %d", ErrShape, t, words)
			}
			v[b*words+int(t)] = float32(math.Inf(-1))
		}
	}
	return nil
}
