package batching

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// How far results of a row may differ by what is in other rows: relative, plus a share of the row's root mean square. They differ in the
// last bits where sums are ordered in another way.
const (
	trialRelative  = 1e-3
	trialDeviation = 1e-4
)

// Bounds of the runs of a trial: rows, and bytes of their inputs. What a Batcher may join at the most is often only a number that is large enough.
const (
	mostTried      = 1 << 10
	mostTriedBytes = 64 << 20
)

// Trial runs a model on two rows, by themselves and together, to find out whether rows depend on each other, and to have plans made.
type Trial struct {
	Rows    *Rows
	Run     func(ctx context.Context, inputs, outputs []*tensor.Tensor) error
	Outputs func(shapes [][]int) ([]Output, error)
	Fatal   func(err error) bool // an error that says nothing of rows
	Buckets []int                // in which the rows are together; of those that are large plans are not made
	Lengths []int                // to which axis 1 is padded
	Sample  []*tensor.Tensor     // inputs of a row or more that the model takes; nil where they are to be made up
	Bounds  graph.Bindings       // the most that symbols are
	Known   bool                 // rows do not depend on each other
	Cold    bool                 // plans need not be made

	pair []*tensor.Tensor // two rows
}

// Reason runs the trial. It returns why rows cannot be batched, "" where they can.
func (t *Trial) Reason() (reason string, err error) {
	open := t.Rows.Open(t.Sample)
	if t.Known && (open || t.Cold) {
		return "", nil
	}
	buckets := t.Buckets
	if t.Cold || open {
		t.Buckets = buckets[:min(2, len(buckets))]
	}
	for _, size := range []int64{graph.AssumedDim, 64, 224} { // of dims that are open: some models take no small ones
		at := maps.Clone(t.Bounds)
		t.Rows.Assume(at, size)
		if t.pair, err = t.Rows.Pair(t.Sample, at); err == nil {
			reason, err = t.independent()
		}
		if err == nil && reason == "" && t.Rows.Long != nil {
			reason, err = t.padding()
		}
		if err == nil || !open || t.Fatal(err) {
			break
		}
	}
	switch {
	case err == nil && !t.Known:
		return reason, nil
	case err == nil || t.Known && !t.Fatal(err): // rows that were made up prove nothing
		return "", nil
	case t.Fatal(err):
		return "", err
	}
	return fmt.Sprintf("whether rows depend on each other is not known, since a run of inputs that are made up fails: %v", err), nil
}

// independent returns where a row's results depend on the other's; an error where a run fails.
func (t *Trial) independent() (reason string, err error) {
	var alone [2][]*tensor.Tensor
	sizes := t.sizes()
	for k := range alone {
		if alone[k], err = t.run(sizes[0], func(int) int { return k }); err != nil {
			return "", err
		}
	}
	for _, n := range sizes {
		for first := range 2 {
			if n == 1 || first == 1 && n > 2 {
				continue
			}
			which := func(row int) int { return (row + first) % 2 }
			together, err := t.run(n, which)
			if err != nil {
				return "", err
			}
			for row := range n {
				for i, got := range together {
					if !same(got, row, alone[which(row)][i], 0) {
						return fmt.Sprintf("a row's results depend on other rows: output %q in a run of %d rows", t.Rows.Outputs[i].Name, n), nil
					}
				}
			}
		}
	}
	return "", nil
}

// sizes returns the buckets that are tried: those that are not large, two rows at least.
func (t *Trial) sizes() []int {
	n := slices.IndexFunc(t.Buckets, t.large)
	switch {
	case n < 0:
		return t.Buckets
	case n == 0 || t.Buckets[n-1] < 2:
		return append(slices.Clone(t.Buckets[:n]), 2)
	}
	return t.Buckets[:n]
}

// large reports whether a run of so many rows is more than a trial is worth.
func (t *Trial) large(rows int) bool {
	if rows > mostTried {
		return true
	}
	bytes := int64(0)
	for _, x := range t.pair {
		if x != nil {
			bytes += int64(x.DType.Bytes(x.Len()) / 2)
		}
	}
	return bytes > mostTriedBytes/int64(rows)
}

// padding returns where results depend on the zeros that are added to lengths.
func (t *Trial) padding() (reason string, err error) {
	long := t.Lengths[0]
	short := max(1, long*3/4)
	n, which := t.sizes()[0], func(int) int { return 0 }
	whole := t.pair
	defer func() { t.pair = whole }()
	if t.pair, err = t.resized(whole, short); err != nil {
		return "", err
	}
	want, err := t.run(n, which)
	if err != nil {
		return "", err
	}
	if t.pair, err = t.resized(t.pair, long); err != nil {
		return "", err
	}
	got, err := t.run(n, which)
	if err != nil {
		return "", err
	}
	for i, w := range want {
		cut, err := tensor.New(w.DType, w.Shape...)
		if err != nil {
			return "", err
		}
		copyRows(cut, 0, got[i], 0, n)
		if !same(cut, 0, w, 0) {
			return fmt.Sprintf("results depend on how far lengths are padded: output %q at %d in place of %d", t.Rows.Outputs[i].Name, long, short), nil
		}
	}
	return "", nil
}

// resized returns a pair with axis 1 of another length, where that is padded.
func (t *Trial) resized(pair []*tensor.Tensor, length int) ([]*tensor.Tensor, error) {
	out := slices.Clone(pair)
	for i, x := range pair {
		if x == nil || !t.Rows.Long[i] {
			continue
		}
		dims := slices.Clone(x.Shape)
		dims[1] = length
		y, err := tensor.New(x.DType, dims...)
		if err != nil {
			return nil, err
		}
		copyRows(y, 0, x, 0, 2)
		out[i] = y
	}
	return out, nil
}

// run computes n rows, each one of the pair.
func (t *Trial) run(n int, which func(row int) int) ([]*tensor.Tensor, error) {
	in, shapes := make([]*tensor.Tensor, len(t.pair)), make([][]int, len(t.pair))
	for i, pair := range t.pair {
		if pair == nil {
			continue
		}
		shapes[i] = append([]int{n}, pair.Shape[1:]...)
		x, err := tensor.New(pair.DType, shapes[i]...)
		if err != nil {
			return nil, err
		}
		for row := range n {
			copyRows(x, row, pair, which(row), 1)
		}
		in[i] = x
	}
	types, err := t.Outputs(shapes)
	if err != nil {
		return nil, err
	}
	out, err := tensors(types, n)
	if err != nil {
		return nil, err
	}
	return out, t.Run(context.Background(), in, out)
}

// same reports whether a row of a is one of b, but for the last bits.
func same(a *tensor.Tensor, i int, b *tensor.Tensor, j int) bool {
	n := rowLen(a)
	if a.DType == tensor.String {
		return slices.Equal(a.Strings[i*n:(i+1)*n], b.Strings[j*n:(j+1)*n])
	}
	x, y := row(a, i), row(b, j)
	if x == nil || !a.DType.IsFloat() {
		size := n * a.DType.Size()
		return slices.Equal(a.Data[a.Offset+i*size:a.Offset+(i+1)*size], b.Data[b.Offset+j*size:b.Offset+(j+1)*size])
	}
	square := 0.0
	for _, v := range y {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			square += v * v
		}
	}
	slack := trialDeviation * math.Sqrt(square/float64(max(n, 1)))
	for k, v := range y {
		if x[k] != v && !(math.IsNaN(x[k]) && math.IsNaN(v)) && !(math.Abs(x[k]-v) <= trialRelative*math.Abs(v)+slack) {
			return false
		}
	}
	return true
}

// row returns the elements of a row as numbers, nil where they are none.
func row(t *tensor.Tensor, i int) []float64 {
	n := rowLen(t)
	v := make([]float64, n)
	size := n * t.DType.Size()
	one := tensor.Tensor{DType: t.DType, Shape: []int{n}, Data: t.Data[t.Offset+i*size : t.Offset+(i+1)*size]}
	if tensor.Decode(v, &one) != nil {
		return nil
	}
	return v
}

// Pair returns two rows for each input: the first and the last of sample, where it has them, others made up, with these values of
// symbols. The second has larger numbers where they are floats, so that one scale for all rows shows. Integers are 0 and 1,
// which indices of anything may be.
func (r *Rows) Pair(sample []*tensor.Tensor, b graph.Bindings) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(r.Inputs))
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range r.Inputs {
		p := &r.Inputs[i]
		if p.Given != nil {
			continue
		}
		var dims []int
		dt := p.Type.DType
		switch s := at(sample, i); {
		case s != nil && len(s.Shape) > 0 && s.Shape[0] > 0:
			dims, dt = slices.Clone(s.Shape), s.DType
		default:
			var err error
			if dims, err = p.Type.Shape.Eval(b, nil); err != nil {
				return nil, fmt.Errorf("input %q: %w", p.Name, err)
			}
		}
		dims[0] = 2
		x, err := tensor.New(dt, dims...)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", p.Name, err)
		}
		if err := makeUp(x, rng); err != nil {
			return nil, fmt.Errorf("input %q: %w", p.Name, err)
		}
		if s := at(sample, i); s != nil {
			copyRows(x, 0, s, 0, 1)
			if s.Shape[0] > 1 {
				copyRows(x, 1, s, s.Shape[0]-1, 1)
			}
		}
		out[i] = x
	}
	return out, nil
}

func at(list []*tensor.Tensor, i int) *tensor.Tensor {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// makeUp fills two rows.
func makeUp(x *tensor.Tensor, rng *rand.Rand) error {
	n := x.Len()
	if x.DType == tensor.String {
		for i := range x.Strings {
			x.Strings[i] = string(rune('a' + rng.IntN(2)))
		}
		return nil
	}
	v := make([]float64, n)
	for i := range v {
		switch {
		case !x.DType.IsFloat():
			v[i] = float64(rng.IntN(2))
		case i < n/2:
			v[i] = rng.NormFloat64()
		default:
			v[i] = 8 * rng.NormFloat64()
		}
	}
	return tensor.Encode(x, v)
}
