package mkl_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// wrongRun is one of the standard's cases of a single operator, with operands that are not what it was made for.
type wrongRun struct {
	rng   *rand.Rand
	graph *graph.Graph
	feeds map[string]tensor.Value
	free  bool // results are not determined
	what  string
}

// openCase reads a case with its first data set; nil where an input is not in it.
func openCase(ctx context.Context, dir string) (*wrongRun, *onnx.Model, error) {
	m, err := onnx.Load(ctx, filepath.Join(dir, "model.onnx"), nil)
	if err != nil {
		return nil, nil, err
	}
	w := &wrongRun{graph: m.Graph, feeds: map[string]tensor.Value{}}
	for n := range m.Graph.Nodes() {
		w.free = w.free || n.Schema != nil && n.Schema.Random || n.Is("Dropout") && n.Input(2) != nil
	}
	for i, v := range m.Graph.Inputs {
		b, err := os.ReadFile(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("input_%d.pb", i)))
		if errors.Is(err, os.ErrNotExist) {
			return nil, m, nil
		}
		if err != nil {
			return nil, m, err
		}
		_, x, err := tensor.ParseValue(b, onnx.ValueKind(v.Type), nil)
		if err != nil {
			return nil, m, err
		}
		w.feeds[v.Name] = x
	}
	return w, m, nil
}

// spoil returns the case with shapes of inputs left open, and one of the operands, or two, of another shape, type or content.
func (w *wrongRun) spoil(seed uint64) (*wrongRun, error) {
	g, err := w.graph.Clone()
	if err != nil {
		return nil, err
	}
	s := &wrongRun{rng: rand.New(rand.NewPCG(seed, 3)), graph: g, feeds: maps.Clone(w.feeds), free: w.free}
	ranked := s.rng.IntN(2) == 0
	var tensors []*graph.Value
	for i, v := range g.Inputs {
		x, ok := s.feeds[v.Name].(*tensor.Tensor)
		if !ok || v.Type.Kind != graph.KindTensor {
			continue
		}
		tensors = append(tensors, v)
		if v.Type.Shape = nil; ranked {
			v.Type.Shape = graph.Shape{}
			for k := range x.Shape {
				v.Type.Shape = append(v.Type.Shape, graph.Sym(fmt.Sprintf("d%d_%d", i, k)))
			}
		}
	}
	for n := range g.Nodes() { // what is declared of results was true of the right operands
		for _, v := range n.Outputs {
			if v != nil && v.Type.Kind == graph.KindTensor {
				v.Type = graph.Type{}
			}
		}
	}
	if len(tensors) == 0 {
		return nil, nil
	}
	for range 1 + s.rng.IntN(2) {
		s.change(tensors[s.rng.IntN(len(tensors))], ranked)
	}
	return s, nil
}

// change spoils one operand.
func (w *wrongRun) change(v *graph.Value, ranked bool) {
	x := w.feeds[v.Name].(*tensor.Tensor)
	shape := slices.Clone(x.Shape)
	axis := 0
	if len(shape) > 0 {
		axis = w.rng.IntN(len(shape))
	}
	kind := w.rng.IntN(9)
	switch {
	case kind < 4 && len(shape) > 0:
		shape[axis] = []int{shape[axis] + 1, max(shape[axis]-1, 0), 0, 1, 2 * shape[axis]}[w.rng.IntN(5)]
	case kind == 4 && !ranked:
		shape = slices.Insert(shape, axis, 1+w.rng.IntN(2))
	case kind == 5 && !ranked && len(shape) > 0:
		shape = slices.Delete(shape, axis, axis+1)
	case kind == 6:
		slices.Reverse(shape)
	case kind == 7 && x.DType == tensor.Int64 && x.Len() > 0:
		x, _ = x.Clone()
		tensor.Of[int64](x)[w.rng.IntN(x.Len())] = []int64{-1, 0, 1, -1000, 1000, 1 << 40, -1 << 63}[w.rng.IntN(7)]
		w.feeds[v.Name] = x
		w.what += fmt.Sprintf(" %s holds %v;", v.Name, tensor.Of[int64](x)[:min(x.Len(), 8)])
		return
	case kind == 8:
		to := []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Bool}[w.rng.IntN(7)]
		y, err := tensor.New(to, shape...)
		if err != nil {
			return
		}
		if w.feeds[v.Name] = y; w.rng.IntN(4) > 0 {
			v.Type.DType = to
		}
		w.what += fmt.Sprintf(" %s is %v;", v.Name, y)
		return
	}
	w.feeds[v.Name] = reshaped(x, shape)
	w.what += fmt.Sprintf(" %s is %v;", v.Name, w.feeds[v.Name])
}

// reshaped returns a tensor of the elements of another, from the beginning again where they do not suffice.
func reshaped(x *tensor.Tensor, shape []int) *tensor.Tensor {
	y, err := tensor.New(x.DType, shape...)
	if err != nil || x.Len() == 0 {
		return x
	}
	if x.DType == tensor.String {
		for i := range y.Strings {
			y.Strings[i] = x.Strings[i%x.Len()]
		}
		return y
	}
	for at := 0; at < len(y.Data); {
		at += copy(y.Data[at:], x.Data)
	}
	return y
}

// patience is how long a case may run: steps of 0 make loops of some that do not end.
const patience = 5 * time.Second

// on runs the case; the error is that of the compiler or of the run.
func (w *wrongRun) on(ctx context.Context, backends ...backend.Config) (map[string]tensor.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	g, err := w.graph.Clone()
	if err != nil {
		return nil, err
	}
	m := carve.FromGraph(g)
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: backends, Threads: 1})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Run(ctx, w.feeds)
}

// differs says how what a backend gives is unlike what the definition does; "" where it is like it.
func (w *wrongRun) differs(want, got map[string]tensor.Value, wantErr, gotErr error) string {
	switch {
	case wantErr != nil && gotErr == nil && nothing(got): // operands of which nothing is made are not looked at
		return ""
	case wantErr != nil && gotErr == nil:
		return fmt.Sprintf("it is run, and refused by the definition: %v", wantErr)
	case wantErr == nil && gotErr != nil:
		return fmt.Sprintf("it is refused: %v", gotErr)
	case wantErr != nil:
		return ""
	}
	for name, x := range want {
		a, ok := x.(*tensor.Tensor)
		b, same := got[name].(*tensor.Tensor)
		if ok != same || ok && a.String() != b.String() {
			return fmt.Sprintf("%s is %v, want %v", name, got[name], x)
		}
	}
	return ""
}

// nothing reports whether no result has an element.
func nothing(results map[string]tensor.Value) bool {
	for _, x := range results {
		if t, ok := x.(*tensor.Tensor); !ok || t.Len() > 0 {
			return false
		}
	}
	return true
}

var _ = Describe("operands that are not what an operator takes", func() {
	every := func(ctx context.Context, step int, rounds uint64) {
		GinkgoHelper()
		root := filepath.Join("..", "..", "..", "shared", "onnx-backend-tests", "node")
		entries, err := os.ReadDir(root)
		if err != nil {
			Skip("the ONNX backend tests are not here: " + root)
		}
		sets := map[string][]backend.Config{"cpu": {{Name: "cpu"}}}
		if b, err := backend.Open(backend.Config{Name: "mkl"}); err == nil {
			Expect(b.Close()).To(Succeed())
			sets["mkl"] = []backend.Config{{Name: "mkl"}, {Name: "cpu"}}
		}
		var wrong []string
		tried, refused := 0, 0
		for i, e := range entries {
			if i%step != 0 {
				continue
			}
			w, m, err := openCase(ctx, filepath.Join(root, e.Name()))
			Expect(err).NotTo(HaveOccurred(), e.Name())
			for seed := range rounds {
				if w == nil {
					break
				}
				s, err := w.spoil(uint64(i)<<16 | seed)
				Expect(err).NotTo(HaveOccurred(), e.Name())
				if s == nil {
					break
				}
				want, wantErr := s.on(ctx, backend.Config{Name: "reference"})
				if errors.Is(wantErr, context.DeadlineExceeded) {
					continue
				}
				tried++
				if wantErr != nil {
					refused++
				}
				for name, list := range sets {
					got, gotErr := s.on(ctx, list...)
					if text := s.differs(want, got, wantErr, gotErr); text != "" {
						wrong = append(wrong, fmt.Sprintf("%s on %s, seed %d:%s %s", e.Name(), name, seed, s.what, text))
					}
				}
			}
			Expect(m.Close()).To(Succeed())
		}
		AddReportEntry("tried", fmt.Sprintf("%d, of which %d are refused", tried, refused))
		Expect(wrong).To(BeEmpty(), "%d of %d:\n%s", len(wrong), tried, strings.Join(wrong, "\n"))
		Expect(refused).To(BeNumerically(">", tried/10))
	}

	It("are refused by all backends or by none", func(ctx SpecContext) { every(ctx, 5, 1) })

	It("are refused by all backends or by none, many times", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes half a minute: -ginkgo.label-filter=slow")
		}
		every(ctx, 1, 6)
	})
})
