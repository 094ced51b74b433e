package mxnet_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// decoded returns the numbers of two tensors, or how their types differ.
func decoded(got, want *tensor.Tensor) (a, b []float64, problem string) {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return nil, nil, fmt.Sprintf("%v, expected %v", got, want)
	}
	a, b = make([]float64, got.Len()), make([]float64, want.Len())
	if err := errors.Join(tensor.Decode(a, got), tensor.Decode(b, want)); err != nil {
		return nil, nil, err.Error()
	}
	return a, b, ""
}

// differ says how far two tensors are apart, where that is more than the tolerance, by the standard deviation of want, or in type or
// shape. share is the largest difference as a part of what the tolerance allows.
func differ(got, want *tensor.Tensor, tolerance float64) (share float64, problem string) {
	a, b, problem := decoded(got, want)
	if problem != "" {
		return math.Inf(1), problem
	}
	scale := deviation(b)
	for i := range a {
		if a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i]) {
			continue
		}
		d := math.Abs(a[i] - b[i])
		if !(d <= tolerance*scale) && problem == "" {
			problem = fmt.Sprintf("element %d is %v, expected %v (deviation %v)", i, a[i], b[i], scale)
		}
		share = math.Max(share, d/(tolerance*scale))
	}
	return share, problem
}

// deviation is the standard deviation of what are finite numbers; of numbers that are all the same their amount, at least 1.
func deviation(v []float64) float64 {
	mean, square := 0.0, 0.0
	v = slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return math.IsInf(x, 0) || math.IsNaN(x) })
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		square += (x - mean) * (x - mean) / float64(len(v))
	}
	if scale := math.Sqrt(square); scale > 0 && !math.IsInf(scale, 0) {
		return scale
	}
	return math.Max(1, math.Abs(mean))
}

// tolerance is relative to the standard deviation: as the data's README allows. A float16 result that is cast to float32 at the end
// is as exact as a float16 one.
func tolerance(want *tensor.Tensor, v *graph.Value) float64 {
	n := v.Producer
	switch {
	case want.DType == tensor.Float16, n != nil && n.Is("Cast") && n.Inputs[0].Type.DType == tensor.Float16:
		return 2e-3
	case want.DType.IsFloat():
		return 1e-4
	}
	return 0
}

// withinHalf is for functions of operands in half precision, which MXNet rounds between their steps, or after: two units in the last
// place of a float16 of the element's size, or of the standard deviation where elements cancel.
func withinHalf(got, want *tensor.Tensor) (share float64, problem string) {
	a, b, problem := decoded(got, want)
	if problem != "" {
		return math.Inf(1), problem
	}
	square := 0.0
	for _, x := range b {
		if !math.IsInf(x, 0) {
			square += x * x / float64(len(b))
		}
	}
	for i := range a {
		if a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i]) {
			continue
		}
		allowed := math.Max(math.Abs(b[i]), math.Sqrt(square)) / 512
		d := math.Abs(a[i] - b[i])
		if !(d <= allowed) && problem == "" {
			problem = fmt.Sprintf("element %d is %v, expected %v", i, a[i], b[i])
		}
		if d > 0 {
			share = math.Max(share, d/allowed)
		}
	}
	return share, problem
}

// withinSteps is for results of rounded integers, of which one step stands for that much.
func withinSteps(got, want *tensor.Tensor, step float64) (share float64, problem string) {
	a, b, problem := decoded(got, want)
	for k := range a {
		// MXNet's quantize and dequantize count 127.5 steps to a range, its layers 127.
		d, allowed := math.Abs(a[k]-b[k]), 1.01*step+0.004*math.Abs(b[k])
		if !(d <= allowed) && problem == "" {
			problem = fmt.Sprintf("element %d is %v, expected %v", k, a[k], b[k])
		}
		share = math.Max(share, d/allowed)
	}
	return share, problem
}

// apart compares results with MXNet's; half says that operands are in half precision, step what one step of rounded integers stands
// for, 0 where there are none.
func apart(got, want []*tensor.Tensor, outputs []*graph.Value, half bool, step float64) (share float64, problem string) {
	if len(got) != len(want) {
		return math.Inf(1), fmt.Sprintf("%d results, expected %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		var part float64
		var s string
		switch n := outputs[i].Producer; {
		case half && w.DType.IsFloat():
			part, s = withinHalf(g, w)
		case step != 0:
			part, s = withinSteps(g, w, step)
		case n != nil && n.Op.Name == "MultiBoxDetection":
			part, s = detectionsDiffer(g, w, tolerance(w, outputs[i]))
		default:
			part, s = differ(g, w, tolerance(w, outputs[i]))
		}
		if share = math.Max(share, part); s != "" && problem == "" {
			problem = fmt.Sprintf("out%d: %s", i, s)
		}
	}
	return share, problem
}

// detectionsDiffer is differ for detections [N, A, 6], rows of class, score and box, the best first: of rows whose scores are the same
// within the tolerance, either may stand first.
func detectionsDiffer(got, want *tensor.Tensor, tolerance float64) (share float64, problem string) {
	a, b, problem := decoded(got, want)
	if problem != "" || len(want.Shape) != 3 || want.Shape[2] != 6 {
		return math.Inf(1), fmt.Sprintf("%v, expected %v", got, want)
	}
	const columns, score = 6, 1
	limit := tolerance * deviation(b)
	far := func(x, y []float64) float64 {
		most := 0.0
		for i := range x {
			if d := math.Abs(x[i]-y[i]) / limit; !(d <= most) {
				most = d
			}
		}
		return most
	}
	line := func(v []float64, i int) []float64 { return v[i*columns : (i+1)*columns] }
	taken, perImage := make([]bool, len(a)/columns), want.Shape[1]
	for i := range taken {
		first, found := i/perImage*perImage, -1
		for j := first; j < first+perImage && found < 0; j++ {
			if !taken[j] && far(line(a, j), line(b, i)) <= 1 && far(line(b, j)[score:score+1], line(b, i)[score:score+1]) <= 1 {
				found = j
				share = math.Max(share, far(line(a, j), line(b, i)))
			}
		}
		if found < 0 {
			return math.Inf(1), fmt.Sprintf("detection %d is %v, expected %v (tolerance %v), nor is it among those of this score", i, line(a, i), line(b, i), limit)
		}
		taken[found] = true
	}
	return share, ""
}

var _ = DescribeTable("detections are the same", func(problem string, got []float32) {
	want := tensor.From([]float32{1, 0.5, 0, 0, 1, 1, 0, 0.5, 2, 2, 3, 3, 0, 0.25, 4, 4, 5, 5}, 1, 3, 6)
	_, s := detectionsDiffer(tensor.From(got, 1, 3, 6), want, 1e-4)
	if problem == "" {
		Expect(s).To(BeEmpty())
	} else {
		Expect(s).To(HavePrefix(problem))
	}
},
	Entry("in the same order", "", []float32{1, 0.5, 0, 0, 1, 1, 0, 0.5, 2, 2, 3, 3, 0, 0.25, 4, 4, 5, 5}),
	Entry("in another where scores are the same", "", []float32{0, 0.50001, 2, 2, 3, 3, 1, 0.5, 0, 0, 1, 1, 0, 0.25, 4, 4, 5, 5}),
	Entry("but not in another where they are not", "detection 1", []float32{1, 0.5, 0, 0, 1, 1, 0, 0.25, 4, 4, 5, 5, 0, 0.5, 2, 2, 3, 3}),
	Entry("nor one twice", "detection 1", []float32{1, 0.5, 0, 0, 1, 1, 1, 0.5, 0, 0, 1, 1, 0, 0.25, 4, 4, 5, 5}),
	Entry("nor where a number is none", "detection 2", []float32{1, 0.5, 0, 0, 1, 1, 0, 0.5, 2, 2, 3, 3, 0, 0.25, 4, 4, 5, float32(math.NaN())}),
)

// row adds a row to one of the tables that -tables FILE writes; the head says which.
func row(head string, cells ...any) {
	var list []string
	for _, c := range cells {
		list = append(list, fmt.Sprint(c))
	}
	AddReportEntry(tableEntry+head, strings.Join(list, " | "), ReportEntryVisibilityNever)
}

const tableEntry = "table: "

// written are the tables of a report, in Markdown.
func written(r Report) string {
	var heads []string
	rows := map[string][]string{}
	for _, s := range r.SpecReports {
		for _, e := range s.ReportEntries {
			if head, ok := strings.CutPrefix(e.Name, tableEntry); ok {
				if rows[head] == nil {
					heads = append(heads, head)
				}
				rows[head] = append(rows[head], e.StringRepresentation())
			}
		}
	}
	var b strings.Builder
	for _, head := range heads {
		fmt.Fprintf(&b, "| %s |\n%s|\n", head, strings.Repeat("|--", 1+strings.Count(head, "|")))
		for _, line := range rows[head] {
			fmt.Fprintf(&b, "| %s |\n", line)
		}
		b.WriteString("\n")
	}
	return b.String()
}
