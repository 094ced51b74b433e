package zootest

import (
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// Distance is how far an output lies from the stored values.
type Distance struct {
	Output string
	Worst  float64 // largest |difference| in standard deviations of the stored output; for integers, elements that differ
	Limit  float64 // largest that is allowed
	Tied   bool    // rows were matched within groups of equal scores
}

// Compare checks outputs against the stored ones: shapes and dtypes equal; floats within max(1e-4, 20 × the distance of
// the other runtime's own optimised run) of the output's standard deviation; integers equal. Where a sorted output of rank
// 1 shows ties, the rows of all outputs of that length may be exchanged among the tied ones. It returns the distance of
// every output, and an error that names the first one that is too far.
func (r *Reference) Compare(outputs map[string]tensor.Value) ([]Distance, error) {
	got := make([]*tensor.Tensor, len(r.Outputs))
	for i := range r.Outputs {
		o := &r.Outputs[i]
		t, ok := outputs[o.Name].(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("output %s is no tensor", o.Name)
		}
		if t.DType.Name() != o.DType || !slices.Equal(t.Shape, o.Dims) {
			return nil, fmt.Errorf("output %s is %v%v, expected %v%v", o.Name, t.DType.Name(), t.Shape, o.DType, o.Dims)
		}
		got[i] = t
	}
	if len(outputs) != len(r.Outputs) {
		return nil, fmt.Errorf("%d outputs, expected %d", len(outputs), len(r.Outputs))
	}
	out := make([]Distance, len(r.Outputs))
	for i := range r.Outputs {
		out[i] = r.Outputs[i].distance(got[i], nil)
	}
	if far(out) < 0 {
		return out, nil
	}
	if perm := r.matchTies(got); perm != nil {
		for i := range r.Outputs {
			if o := &r.Outputs[i]; o.Step == 1 && len(o.Dims) > 0 && o.Dims[0] == len(perm) {
				out[i] = o.distance(got[i], perm)
				out[i].Tied = true
			}
		}
	}
	if i := far(out); i >= 0 {
		return out, fmt.Errorf("output %s is %.3g from the reference, allowed are %.3g", out[i].Output, out[i].Worst, out[i].Limit)
	}
	return out, nil
}

// far returns the first distance beyond its limit, or -1.
func far(ds []Distance) int {
	return slices.IndexFunc(ds, func(d Distance) bool { return !(d.Worst <= d.Limit) })
}

func (o *Output) isFloat() bool {
	dt, _ := tensor.ParseDType(o.DType)
	return dt.IsFloat()
}

func (o *Output) limit() float64 {
	if !o.isFloat() {
		return 0
	}
	return max(1e-4, 20*o.Diff)
}

// at returns the difference of stored value k from element i, in the unit of Distance.Worst.
func (o *Output) at(t *tensor.Tensor, i, k int) float64 {
	x := t.Float64At(i)
	if !o.isFloat() {
		if x == o.Values[k] {
			return 0
		}
		return 1
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return math.Inf(1)
	}
	std := o.Stats.Std
	if std == 0 {
		std = 1
	}
	return math.Abs(x-o.Values[k]) / std
}

// distance compares with the stored values; perm, where it is not nil, names the row to compare with each stored row.
func (o *Output) distance(t *tensor.Tensor, perm []int) Distance {
	d := Distance{Output: o.Name, Limit: o.limit()}
	row := 1
	if perm != nil {
		row = t.Len() / len(perm)
	}
	for k := range o.Values {
		i := k * o.Step
		if i >= t.Len() {
			d.Worst = math.Inf(1)
			break
		}
		if perm != nil {
			i = perm[i/row]*row + i%row
		}
		x := o.at(t, i, k)
		if o.isFloat() {
			d.Worst = max(d.Worst, x)
		} else {
			d.Worst += x
		}
	}
	return d
}

// matchTies returns, for every stored row, the row that stands for it: another one only within a group of stored scores
// that lie within twice their tolerance of each other. It is nil where no output is a sorted list of scores.
func (r *Reference) matchTies(got []*tensor.Tensor) []int {
	s := slices.IndexFunc(r.Outputs, func(o Output) bool {
		return o.isFloat() && o.Step == 1 && len(o.Dims) == 1 && len(o.Values) == o.Dims[0] &&
			slices.IsSortedFunc(o.Values, func(a, b float64) int { return -compareFloats(a, b) })
	})
	if s < 0 {
		return nil
	}
	scores := &r.Outputs[s]
	n := len(scores.Values)
	tie := 2 * scores.limit() * scores.Stats.Std
	perm := make([]int, n)
	for from := 0; from < n; {
		to := from + 1
		for to < n && scores.Values[to-1]-scores.Values[to] <= tie {
			to++
		}
		r.matchGroup(got, perm, from, to)
		from = to
	}
	return perm
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// matchGroup fills perm[from:to] with a permutation of [from, to): each stored row takes the first free row that equals
// it within the limits, and what is left goes in order.
func (r *Reference) matchGroup(got []*tensor.Tensor, perm []int, from, to int) {
	taken := make([]bool, to-from)
	for k := from; k < to; k++ {
		perm[k] = -1
		for _, i := range candidates(k, from, to) {
			if !taken[i-from] && r.rowsEqual(got, len(perm), k, i) {
				perm[k], taken[i-from] = i, true
				break
			}
		}
	}
	for k := from; k < to; k++ {
		if perm[k] < 0 {
			i := slices.Index(taken, false)
			perm[k], taken[i] = from+i, true
		}
	}
}

// candidates returns [from, to) with k first.
func candidates(k, from, to int) []int {
	out := []int{k}
	for i := from; i < to; i++ {
		if i != k {
			out = append(out, i)
		}
	}
	return out
}

func (r *Reference) rowsEqual(got []*tensor.Tensor, n, stored, row int) bool {
	for j := range r.Outputs {
		o := &r.Outputs[j]
		if o.Step != 1 || len(o.Dims) == 0 || o.Dims[0] != n {
			continue
		}
		width := len(o.Values) / n
		for c := range width {
			if !(o.at(got[j], row*width+c, stored*width+c) <= o.limit()) {
				return false
			}
		}
	}
	return true
}
