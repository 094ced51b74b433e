package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/gradient"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/internal/flops"
	"github.com/carve-dev/carve/internal/units"
	"github.com/carve-dev/carve/partition"
)

type inspectFlags struct {
	modelFlags
	json bool
}

func (a *app) inspectCommand() *cobra.Command {
	f := &inspectFlags{}
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Shows a model's inputs, outputs, operators, weights and FLOPs",
		Long: "inspect shows what a model holds, as its file says it: inputs, outputs, operator sets, operators by count, weights,\n" +
			"floating-point operations (2 per multiply-add of Conv, ConvTranspose, MatMul, Gemm, LSTM, GRU and RNN), and the\n" +
			"operators that none of the backends in this program supports.",
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.inspect(cmd.Context(), args[0], f) },
	}
	f.add(cmd, shaping|overriding|extending)
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// inspection is what inspect prints, and its JSON.
type inspection struct {
	Model       string            `json:"model"`
	Producer    string            `json:"producer"`
	IRVersion   int64             `json:"ir_version"`
	Opsets      map[string]int    `json:"opsets"`
	Inputs      []portReport      `json:"inputs"`
	Overridable []string          `json:"overridable"`
	Outputs     []portReport      `json:"outputs"`
	Nodes       int               `json:"nodes"`
	Operators   []operatorReport  `json:"operators"`
	Weights     weightReport      `json:"weights"`
	GFLOP       float64           `json:"gflop"`
	Uncounted   []string          `json:"gflop_lacks"`
	Unsupported []unsupportedNode `json:"unsupported"`
	Dims        map[string]int64  `json:"dims"`
	// Overruled are types that the model declares and that are not what is computed.
	Overruled []carve.OverruledReport `json:"overruled,omitempty"`
}

type portReport struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type operatorReport struct {
	Op    string `json:"op"`
	Count int    `json:"count"`
}

type weightReport struct {
	Count      int   `json:"count"`
	Parameters int64 `json:"parameters"`
	Bytes      int64 `json:"bytes"`
	FileBytes  int64 `json:"file_bytes"`
}

type unsupportedNode struct {
	Op     string   `json:"op"`
	Nodes  []string `json:"nodes"`
	Reason string   `json:"reason"`
}

func (a *app) inspect(ctx context.Context, path string, f *inspectFlags) error {
	m, err := f.open(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	b, err := bind(m.Graph(), &f.modelFlags, nil)
	if err != nil {
		return err
	}
	g, err := concrete(m.Graph(), b)
	if err != nil {
		return err
	}
	count, err := flops.Of(g, b.values)
	if err != nil {
		return err
	}
	symbolic, err := m.Graph().Clone()
	if err != nil {
		return err
	}
	bindOperators(symbolic, b.libraries)
	wrong, err := graph.InferModel(symbolic)
	if err != nil {
		return err
	}
	src := cmp.Or(m.Source(), &onnx.Model{}) // a bundle does not say where it is from
	r := &inspection{Model: path, Producer: strings.TrimSpace(src.Producer + " " + src.ProducerVersion), IRVersion: src.IRVersion,
		Opsets: src.Opsets, Inputs: ports(symbolic.Inputs, nil), Outputs: ports(symbolic.Outputs, src.Outputs), GFLOP: count.Total / 1e9,
		Uncounted: append(append([]string{}, count.Unknown...), count.Partial...), Dims: b.report(), Unsupported: []unsupportedNode{},
		Overridable: append([]string{}, src.Overridable...)}
	r.Weights.FileBytes = src.FileBytes
	for _, w := range wrong {
		r.Overruled = append(r.Overruled, carve.OverruledReport{Value: w.Value, Declared: w.Declared.String(), Computed: w.Computed.String()})
	}
	r.survey(g)
	if r.Unsupported, err = unsupported(g); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.say(a)
	if f.json {
		return writeJSON(a.stdout, r)
	}
	a.printInspection(r)
	return nil
}

// concrete returns a copy of g whose inputs have the shapes of b, with all types inferred.
func concrete(g *graph.Graph, b *binding) (*graph.Graph, error) {
	c, err := g.Clone()
	if err != nil {
		return nil, err
	}
	sub := map[string]graph.Dim{}
	for s, n := range b.dims {
		sub[s] = graph.D(n)
	}
	for _, v := range c.Inputs {
		if shape, ok := b.shapes[v.Name]; ok && !v.Type.Shape.Known() && v.Type.IsTensor() {
			v.Type.Shape = graph.ShapeOf(shape...)
			continue
		}
		if v.Type.Shape == nil {
			continue
		}
		shape := slices.Clone(v.Type.Shape)
		for k := range shape {
			shape[k] = shape[k].Subst(sub)
		}
		v.Type.Shape = shape
	}
	bindOperators(c, b.libraries)
	_, err = graph.InferModel(c)
	return c, err
}

// bindOperators has nodes of libraries' operators known as that.
func bindOperators(g *graph.Graph, libraries []*backend.Library) {
	g.BindSchemas(func(domain, name string, version int) *graph.Schema {
		return backend.SchemaOf(libraries, domain, name, version)
	})
}

func ports(vs []*graph.Value, names []string) []portReport {
	out := []portReport{}
	for i, v := range vs {
		p := portReport{Name: v.String(), Type: v.Type.String()}
		if i < len(names) {
			p.Name = names[i]
		}
		out = append(out, p)
	}
	return out
}

// eachNode calls fn for every node of g and of the regions in it.
func eachNode(g *graph.Graph, fn func(n *graph.Node)) {
	for n := range g.Nodes() {
		fn(n)
		for _, r := range n.Regions {
			eachNode(r.Graph, fn)
		}
	}
}

// survey counts operators and weights.
func (r *inspection) survey(g *graph.Graph) {
	count := map[string]int{}
	seen := map[*byte]bool{}
	weigh := func(g *graph.Graph) {
		for v := range g.Constants() {
			if !v.IsConst() {
				continue
			}
			if len(v.Const.Data) > 0 {
				if seen[&v.Const.Data[0]] {
					continue // shared with a region
				}
				seen[&v.Const.Data[0]] = true
			}
			r.Weights.Count++
			r.Weights.Parameters += int64(v.Const.Len())
			r.Weights.Bytes += int64(v.Const.NumBytes())
		}
	}
	weigh(g)
	eachNode(g, func(n *graph.Node) {
		r.Nodes++
		count[n.Op.String()]++
		for _, region := range n.Regions {
			weigh(region.Graph)
		}
	})
	r.Operators = []operatorReport{}
	for _, op := range slices.Sorted(maps.Keys(count)) {
		r.Operators = append(r.Operators, operatorReport{op, count[op]})
	}
	slices.SortStableFunc(r.Operators, func(x, y operatorReport) int { return cmp.Compare(y.Count, x.Count) })
}

// asCompiled returns g with what stands for operators that others say, as it is compiled: g itself where one of them cannot be said.
func asCompiled(g *graph.Graph) (*graph.Graph, error) {
	c, err := g.Clone()
	if err != nil {
		return nil, err
	}
	if microsoft.Expand(c, nil) != nil || gradient.Expand(c) != nil {
		return g, nil
	}
	return c, nil
}

// unsupported returns the operators that none of the backends in this program runs, with the reason of the reference, which is asked
// first: others are opened where it leaves something, since some load libraries of tens of megabytes.
func unsupported(g *graph.Graph) ([]unsupportedNode, error) {
	g, err := asCompiled(g)
	if err != nil {
		return nil, err
	}
	var left []*graph.Node
	eachNode(g, func(n *graph.Node) {
		if !(partition.HostScheduled(n) && n.Schema != nil || n.Is("Constant") || n.IsCarve(graph.OpSubgraph) || n.IsCarve(graph.OpConvert)) {
			left = append(left, n)
		}
	})
	reasons := map[*graph.Node]string{}
	others := slices.DeleteFunc(backend.Names(), func(name string) bool { return name == "reference" })
	for _, name := range append([]string{"reference"}, others...) {
		if len(left) == 0 {
			break
		}
		b, err := backend.Open(backend.Config{Name: name})
		if err != nil {
			continue // not on this machine
		}
		left = slices.DeleteFunc(left, func(n *graph.Node) bool {
			why := b.Supports(n).Reason
			if why != nil {
				reasons[n] = cmp.Or(reasons[n], b.Info().Name+": "+why.String())
			}
			return why == nil
		})
		if err := b.Close(); err != nil {
			return nil, err
		}
	}
	type key struct{ op, reason string }
	index := map[key]int{}
	out := []unsupportedNode{}
	for _, n := range left {
		k := key{n.Op.String(), cmp.Or(reasons[n], "no backend is available")}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, unsupportedNode{Op: k.op, Reason: k.reason})
		}
		name := n.Name
		if p := n.Provenance(); len(p) > 0 {
			name = p[0]
		}
		out[i].Nodes = append(out[i].Nodes, name)
	}
	slices.SortStableFunc(out, func(x, y unsupportedNode) int { return strings.Compare(x.Op, y.Op) })
	return out, nil
}

func (a *app) printInspection(r *inspection) {
	t := newTable(a.stdout)
	if r.Producer != "" {
		row(t, "producer", r.Producer)
	}
	if r.IRVersion != 0 { // of ONNX files
		row(t, "IR version", r.IRVersion)
	}
	for _, d := range slices.Sorted(maps.Keys(r.Opsets)) {
		name := d
		if d == "" {
			name = "ai.onnx"
		}
		row(t, "opset", fmt.Sprintf("%s %d", name, r.Opsets[d]))
	}
	for _, p := range r.Inputs {
		row(t, "input", p.Name, p.Type)
	}
	if n := len(r.Overridable); n > 0 {
		row(t, "overridable", counted(n, "initializer"), strings.Join(r.Overridable[:min(n, 20)], ", "))
	}
	for _, p := range r.Outputs {
		row(t, "output", p.Name, p.Type)
	}
	row(t, "weights", fmt.Sprintf("%s, %d parameters, %s", counted(r.Weights.Count, "tensor"), r.Weights.Parameters, units.Bytes(r.Weights.Bytes)))
	lacks := ""
	if n := len(r.Uncounted); n > 0 {
		lacks = fmt.Sprintf("without %s whose work depends on data", counted(n, "node"))
	}
	row(t, "GFLOP", fmt.Sprintf("%.4g", r.GFLOP), lacks)
	row(t, "nodes", r.Nodes)
	for _, o := range r.Operators {
		row(t, fmt.Sprintf("  %s", o.Op), o.Count)
	}
	t.Flush()
	for _, w := range r.Overruled[:min(len(r.Overruled), 20)] {
		fmt.Fprintf(a.stdout, "declared wrongly: %s\n", cell(fmt.Sprintf("%s as %s, is %s", w.Value, w.Declared, w.Computed)))
	}
	for _, u := range r.Unsupported {
		fmt.Fprintf(a.stdout, "unsupported: %s\n", cell(fmt.Sprintf("%s (%s): %s", u.Op, counted(len(u.Nodes), "node"), u.Reason)))
	}
}
