package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/cost"
	"github.com/carve-dev/carve/internal/zootest"
)

// checked are the models that are checked by default: of every kind that the zoo has.
const checked = "resnet50,mobilenet_v2,densenet121,efficientnet_b0,inception_v3,shufflenet_v2_x1_0,squeezenet1_1,vgg11,unet,bert_tiny,gpt2_tiny,vit_b_16,lstm_tagger"

// node is a node, or a fused set, of a compiled model.
type node struct {
	model, name string
	class       string
	what        string // operator and shapes
	modelled    float64
	measured    float64 // least of the runs; +Inf where no run had it
}

// checkZoo compares modelled and profiled times, for each backend alone and between the first two.
func checkZoo(models string, contestants []contestant, threads, rounds int) error {
	if models == "" {
		models = checked
	}
	all := make([][]node, len(contestants))
	for _, name := range strings.Split(models, ",") {
		var profiles []*profiled
		for _, c := range contestants {
			p, err := newProfiled(name, c, threads)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", name, c, err)
			}
			profiles = append(profiles, p)
		}
		for range 4 * rounds {
			for _, p := range profiles {
				if err := p.round(); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		for i, p := range profiles {
			all[i] = append(all[i], p.close()...)
		}
	}
	for i, c := range contestants {
		accuracy(c, all[i])
	}
	if len(all) > 1 {
		choices(contestants[0], contestants[1], all[0], all[1])
	}
	return nil
}

// profiled is a model on one backend, with reference behind it.
type profiled struct {
	backend string
	program *carve.Program
	model   *carve.Model
	feeds   map[string]tensor.Value
	nodes   map[string]*node // by the names of the model's nodes
}

func newProfiled(name string, c contestant, threads int) (*profiled, error) {
	p := &profiled{backend: c.Name, nodes: map[string]*node{}}
	ctx := context.Background()
	if err := p.open(ctx, name); err != nil {
		return nil, err
	}
	b, err := backend.Open(backend.Config{Name: c.Name, Options: c.options})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	e := b.Info().Efficiency
	shapes := map[string][]int{}
	for n, v := range p.feeds {
		if t, ok := v.(*tensor.Tensor); ok {
			shapes[n] = t.Shape
		}
	}
	p.program, err = carve.Compile(ctx, p.model, &carve.Options{Backends: []backend.Config{{Name: c.Name, Options: c.options}}, Threads: threads, Placement: carve.Priority,
		MaxSessions: 1, Shapes: shapes, Dump: func(pass string, g *graph.Graph) {
			if pass != "choose-formats" {
				return
			}
			for n := range g.Nodes() {
				if n.Backend != c.Name {
					continue
				}
				w := cost.Measure(n)
				p.nodes[key(n.Provenance())] = &node{model: filepath.Base(name), name: n.Label(), class: w.Class, what: describe(n),
					modelled: cost.Nanoseconds(e, &w, n.SigName, threads), measured: math.Inf(1)}
			}
		}})
	return p, err
}

// open opens a model of the zoo by its name, with the inputs of its reference, or a model file, with numbers that are the same each time.
func (p *profiled) open(ctx context.Context, name string) (err error) {
	if strings.HasSuffix(name, ".onnx") {
		if p.model, err = carve.Open(ctx, name); err != nil {
			return err
		}
		p.feeds, err = feeds(p.model.Graph())
		return err
	}
	path, err := zootest.Materialize(name)
	if err != nil {
		return err
	}
	ref, err := zootest.ReadReference(name)
	if err != nil {
		return err
	}
	if p.feeds, err = ref.Feeds(); err != nil {
		return err
	}
	p.model, err = carve.Open(ctx, path)
	return err
}

// key names a node by what it stands for.
func key(nodes []string) string {
	list := slices.Clone(nodes)
	slices.Sort(list)
	return strings.Join(list, " ")
}

// describe names a node's operators and its types.
func describe(n *graph.Node) string {
	s := n.Op.Name
	if n.IsCarve(graph.OpFused) {
		var ops []string
		for m := range n.Regions[0].Graph.Nodes() {
			ops = append(ops, m.Op.Name)
		}
		s = strings.Join(ops, "+")
	}
	for _, v := range n.Inputs {
		if v != nil {
			s += " " + strings.ReplaceAll(v.Type.String(), " ", "")
		}
	}
	return s + " " + n.SigName
}

// round runs the model once and keeps the least time of each node.
func (p *profiled) round() error {
	_, prof, err := p.program.RunProfiled(context.Background(), p.feeds)
	if err != nil {
		return err
	}
	sums := map[string]time.Duration{}
	for _, s := range prof.Spans {
		if s.Backend == p.backend && !strings.HasSuffix(s.Op, graph.OpConvert) {
			sums[key(s.Nodes)] += s.Time
		}
	}
	for k, t := range sums {
		if n := p.nodes[k]; n != nil {
			n.measured = min(n.measured, float64(max(t, 1)))
		}
	}
	return nil
}

// close returns the nodes that were seen, in the order of their keys.
func (p *profiled) close() (list []node) {
	p.program.Close()
	p.model.Close()
	for _, k := range slices.Sorted(maps.Keys(p.nodes)) {
		if n := p.nodes[k]; !math.IsInf(n.measured, 1) {
			x := *n
			x.name = k
			list = append(list, x)
		}
	}
	return list
}

// accuracy prints how far modelled times are from profiled ones, by class.
func accuracy(c contestant, list []node) {
	fmt.Printf("\n%s, %d nodes: rank correlation %.3f\n\n| class | nodes | modelled ms | measured ms | geometric mean of error | of ratio | worst | worst at |\n|---|--:|--:|--:|--:|--:|--:|---|\n",
		c, len(list), rankCorrelation(list))
	byClass := map[string][]node{}
	for _, n := range list {
		byClass[n.class] = append(byClass[n.class], n)
		byClass[""] = append(byClass[""], n)
	}
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		var modelled, measured, sum, signed, worst float64
		var at node
		for _, n := range byClass[class] {
			modelled, measured = modelled+n.modelled, measured+n.measured
			d := math.Log(n.modelled / n.measured)
			sum, signed = sum+math.Abs(d), signed+d
			if math.Abs(d) > math.Abs(worst) {
				worst, at = d, n
			}
		}
		k := float64(len(byClass[class]))
		if class == "" {
			class = "all"
		}
		fmt.Printf("| %s | %.0f | %.3f | %.3f | %.2f | %.2f | %.2f | %s %s, %.1f µs |\n", class, k, modelled/1e6, measured/1e6, math.Exp(sum/k), math.Exp(signed/k),
			math.Exp(worst), at.model, at.what, at.measured/1e3)
	}
}

// rankCorrelation is Spearman's, of modelled and measured times.
func rankCorrelation(list []node) float64 {
	if len(list) < 2 {
		return 1
	}
	ranks := func(of func(n *node) float64) []float64 {
		order := make([]int, len(list))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch x, y := of(&list[a]), of(&list[b]); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		r := make([]float64, len(list))
		for i := 0; i < len(order); { // ties share the mean of their ranks
			j := i
			for j < len(order) && of(&list[order[j]]) == of(&list[order[i]]) {
				j++
			}
			for k := i; k < j; k++ {
				r[order[k]] = float64(i+j-1) / 2
			}
			i = j
		}
		return r
	}
	a, b := ranks(func(n *node) float64 { return n.modelled }), ranks(func(n *node) float64 { return n.measured })
	mean := float64(len(list)-1) / 2
	var ab, aa, bb float64
	for i := range a {
		ab += (a[i] - mean) * (b[i] - mean)
		aa += (a[i] - mean) * (a[i] - mean)
		bb += (b[i] - mean) * (b[i] - mean)
	}
	return ab / math.Sqrt(aa*bb)
}

// clear is the ratio of two times above which one backend is clearly the better.
const clear = 1.3

// choices prints how often the model prefers the backend that is clearly faster, of the nodes that both have alike.
func choices(ca, cb contestant, a, b []node) {
	type pair struct{ a, b node }
	of := map[string]node{}
	for _, n := range b {
		of[n.model+" "+n.name] = n
	}
	var wrong []pair
	right, lost, total := 0, 0.0, 0.0
	counts := map[string][2]int{}
	for _, n := range a {
		m, ok := of[n.model+" "+n.name]
		if !ok {
			continue
		}
		total += min(n.measured, m.measured)
		if r := n.measured / m.measured; r < clear && r > 1/clear {
			continue
		}
		k := counts[n.class]
		if (n.modelled < m.modelled) == (n.measured < m.measured) {
			right++
			k[0]++
		} else {
			wrong = append(wrong, pair{n, m})
			lost += math.Abs(n.measured - m.measured)
			k[1]++
		}
		counts[n.class] = k
	}
	fmt.Printf("\n%s or %s: %d of %d nodes right that differ by more than %.1f; the others lose %.2f ms of %.2f ms\n\n", ca, cb, right, right+len(wrong), clear, lost/1e6, total/1e6)
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		if k := counts[class]; k[1] > 0 {
			fmt.Printf("- %s: %d right, %d wrong\n", class, k[0], k[1])
		}
	}
	slices.SortStableFunc(wrong, func(x, y pair) int {
		return int(math.Abs(y.a.measured-y.b.measured)) - int(math.Abs(x.a.measured-x.b.measured))
	})
	fmt.Printf("\n| model | node | %s modelled µs | measured | %s modelled | measured |\n|---|---|--:|--:|--:|--:|\n", ca, cb)
	for _, p := range wrong[:min(len(wrong), 40)] {
		fmt.Printf("| %s | %s, %s | %.1f | %.1f | %.1f | %.1f |\n", p.a.model, p.a.what, p.b.what[strings.LastIndex(p.b.what, " ")+1:], p.a.modelled/1e3, p.a.measured/1e3, p.b.modelled/1e3, p.b.measured/1e3)
	}
}
