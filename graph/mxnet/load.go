package mxnet

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/files"
)

// Options settles how a model is read. nil means the defaults.
type Options struct {
	// Params is the path of the parameters, or their name in the file system; default the newest epoch beside the symbol.
	Params string
	// Epoch chooses the parameters of an epoch beside the symbol; nil means the newest.
	Epoch *int
	// Shapes are of inputs by name, -1 for a dim that stays open. Others are what the symbol says (__shape__), or what the
	// parameters of the operators tell that read them. An input whose rank nobody tells must be named where an operator needs it.
	Shapes map[string][]int
	// Types are of inputs by name; default what the symbol says (__dtype__), the parameters tell, or float32.
	Types map[string]tensor.DType
	// Outputs are the results, in place of the symbol's heads: names of nodes, or of one of their outputs, such as fc1_output.
	Outputs []string
	// Copy reads files into memory instead of mapping them. Default false.
	Copy bool
	// MaxNodes bounds the nodes of the graph; default 1 Mi.
	MaxNodes int
	// MaxDense bounds the bytes of sparse parameters made dense; default 256 MiB.
	MaxDense int
}

// Model is a graph with what MXNet's files say beside it. It is safe for concurrent reads. Constants of its graph refer to the
// file of parameters: what uses them keeps the Model.
type Model struct {
	Graph      *graph.Graph
	Symbol     *Symbol
	File       string   // path or name of the symbol; empty for Parse
	ParamsFile string   // path or name of the parameters; empty where there are none
	Outputs    []string // names of Graph.Outputs, as MXNet calls them
	FileBytes  int64    // of both files

	maps files.Maps
}

// Close unmaps the model's files. Nothing that refers to its constants may be used afterwards. Closing again does nothing.
func (m *Model) Close() error {
	err := m.maps.Close()
	m.maps = nil
	return err
}

// Evict tells the system that the mapped files will not be read soon: their pages stop counting as memory of the process.
func (m *Model) Evict() error {
	return m.maps.Evict()
}

// Load reads a model: path is of the symbol (net-symbol.json, or any JSON file), of parameters of an epoch (net-0042.params), or the
// prefix of both (net). The parameters are mapped into memory and stay so until Close, or until nobody can reach Model.Graph. Only
// regular files are read. It stops soon after ctx ends. Faults are an *Error.
func Load(ctx context.Context, path string, o *Options) (*Model, error) {
	return load(ctx, &finder{Set: files.Set{Copy: o != nil && o.Copy}}, path, o)
}

// LoadFS reads a model from a file system, such as one that go:embed fills. Faults are an *Error.
func LoadFS(ctx context.Context, fsys fs.FS, name string, o *Options) (*Model, error) {
	if fsys == nil {
		return nil, located(fmt.Errorf("no file system: %w", fs.ErrInvalid), name, "")
	}
	return load(ctx, &finder{fsys: fsys}, name, o)
}

func load(ctx context.Context, f *finder, path string, o *Options) (m *Model, err error) {
	if o == nil {
		o = &Options{}
	}
	defer func() {
		if err != nil {
			_ = f.Maps.Close() // the first error counts
		}
	}()
	symbol, params, err := f.pair(path, o)
	if err != nil {
		return nil, located(err, path, "")
	}
	text, err := f.read(symbol)
	if err != nil {
		return nil, located(err, symbol, "")
	}
	var weights []byte
	if params != "" {
		if weights, err = f.read(params); err != nil {
			return nil, located(err, params, "")
		}
	}
	m, err = parse(ctx, text, weights, symbol, params, o)
	if err != nil {
		return nil, err
	}
	m.FileBytes, m.maps = f.Bytes, f.Maps
	if len(m.maps) > 0 {
		// A mapping ends when nobody holds it; whoever holds the graph and not the Model must still be able to read.
		runtime.AddCleanup(m.Graph, func(files.Maps) {}, m.maps)
	}
	return m, nil
}

// Parse reads a model from the bytes of a symbol and of parameters, to which its constants refer: they must not change. Parameters
// may be empty. Faults are an *Error.
func Parse(ctx context.Context, symbol, params []byte, o *Options) (*Model, error) {
	if o == nil {
		o = &Options{}
	}
	return parse(ctx, symbol, params, "", "", o)
}

func parse(ctx context.Context, text, weights []byte, symbol, params string, o *Options) (*Model, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	s, err := ParseSymbol(text)
	if err != nil {
		return nil, located(err, symbol, "")
	}
	t := &translator{ctx: ctx, o: *o, params: map[string]*tensor.Tensor{}, labels: map[string]int{}, real: map[*graph.Value]bool{}, open: map[*graph.Value]bool{}}
	if t.o.MaxNodes <= 0 {
		t.o.MaxNodes = mostNodes
	}
	t.budget = t.o.MaxNodes
	if len(weights) > 0 {
		list, err := ParseParams(weights, &ParamsOptions{MaxDense: o.MaxDense})
		if err != nil {
			return nil, located(err, params, "")
		}
		if t.params, err = byVariable(list); err != nil {
			return nil, located(err, params, "")
		}
	}
	g, names, err := t.model(s, symbol)
	if err != nil {
		return nil, located(err, symbol, "")
	}
	return &Model{Graph: g, Symbol: s, File: symbol, ParamsFile: params, Outputs: names}, nil
}

// byVariable finds arrays by the names of variables: behind arg: and aux:, or as they are.
func byVariable(list []Array) (map[string]*tensor.Tensor, error) {
	out := make(map[string]*tensor.Tensor, len(list))
	for _, a := range list {
		name := a.Name
		for _, prefix := range []string{"arg:", "aux:"} {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				name = rest
				break
			}
		}
		if name == "" {
			continue // of a list
		}
		if _, twice := out[name]; twice {
			return nil, &Error{Op: "load", Node: name, Offset: a.Offset, Err: fmt.Errorf("%w: two arrays for one variable", ErrSyntax)}
		}
		out[name] = a.Tensor
	}
	return out, nil
}

// mostNodes is the default of Options.MaxNodes.
const mostNodes = 1 << 20

// VersionKey is the key of Graph.Meta under which the version of MXNet stands that wrote the symbol.
const VersionKey = "mxnet_version"

// model makes the graph.
func (t *translator) model(s *Symbol, file string) (*graph.Graph, []string, error) {
	name := file[strings.LastIndexAny(file, `/\`)+1:]
	g := graph.New(strings.TrimSuffix(strings.TrimSuffix(name, ".json"), "-symbol"))
	g.Opsets[""] = Opset
	g.Meta = map[string]string{VersionKey: fmt.Sprintf("%d.%d.%d", s.Version/10000, s.Version/100%100, s.Version%100)}
	heads := s.Heads
	if len(t.o.Outputs) > 0 {
		heads = nil
		for _, want := range t.o.Outputs {
			e, err := s.find(want)
			if err != nil {
				return nil, nil, err
			}
			heads = append(heads, e)
		}
	}
	top := t.scope(g, s, "")
	if err := top.variables(s.needed(heads)); err != nil {
		return nil, nil, err
	}
	if err := t.known(s); err != nil {
		return nil, nil, err
	}
	out, err := top.run(heads)
	if err != nil {
		return nil, nil, err
	}
	names := make([]string, len(out))
	seen := map[*graph.Value]bool{}
	for i, v := range out {
		names[i] = v.Name
		if names[i] == "" {
			names[i] = outputName(s.Nodes[heads[i].Node].Name, s.Nodes[heads[i].Node].Op, heads[i].Index, 1)
		}
		if seen[v] || v.Producer == nil { // an output that is there already, an input or a constant
			n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Identity"}, Name: fmt.Sprintf("%s_head%d", s.Nodes[heads[i].Node].Name, i),
				Inputs: []*graph.Value{v}, Outputs: []string{""}})
			if err := graph.InferNode(n); err != nil {
				return nil, nil, err
			}
			v = n.Outputs[0]
		}
		seen[v] = true
		out[i] = v
	}
	unique(names)
	for i, v := range out {
		v.Name = names[i]
	}
	g.SetOutputs(out...)
	if contains(g, func(n *graph.Node) bool { return n.Op.Domain == Domain }) {
		g.Opsets[Domain] = 1
	}
	if contains(g, ofHalf) { // MXNet rounds the result of every operator
		g.Meta[graph.HalfKey] = graph.HalfRounded
	}
	return g, names, nil
}

// known reports a shape or type that Options give for what is no variable.
func (t *translator) known(s *Symbol) error {
	names := map[string]bool{}
	for i := range s.Nodes {
		if s.Nodes[i].IsVariable() {
			names[s.Nodes[i].Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.o.Shapes)) {
		if !names[name] {
			return &Error{Op: "load", Node: name, Offset: -1, Err: fmt.Errorf("%w: a shape for what is no variable", ErrInputs)}
		}
	}
	return nil
}

// unique gives names that repeat a number.
func unique(names []string) {
	seen := map[string]bool{}
	for i, name := range names {
		for k := 1; seen[name]; k++ {
			name = fmt.Sprintf("%s_%d", names[i], k)
		}
		names[i] = name
		seen[name] = true
	}
}

// contains reports whether a graph, or a body in it, has a node that f accepts.
func contains(g *graph.Graph, f func(*graph.Node) bool) bool {
	for n := range g.Nodes() {
		if f(n) || slices.ContainsFunc(n.Regions, func(r graph.Region) bool { return contains(r.Graph, f) }) {
			return true
		}
	}
	return false
}

// ofHalf reports nodes with a result in half precision.
func ofHalf(n *graph.Node) bool {
	return slices.ContainsFunc(n.Outputs, func(v *graph.Value) bool {
		return v != nil && (v.Type.DType == tensor.Float16 || v.Type.DType == tensor.BFloat16)
	})
}

// find returns the output that a name means: of the last node of that name, or the output that MXNet calls so.
func (s *Symbol) find(name string) (Entry, error) {
	for i := len(s.Nodes) - 1; i >= 0; i-- {
		if s.Nodes[i].Name == name {
			return Entry{i, 0}, nil
		}
	}
	for i := len(s.Nodes) - 1; i >= 0; i-- {
		n := &s.Nodes[i]
		rest, ok := strings.CutPrefix(name, n.Name+"_")
		if !ok || n.IsVariable() || n.Name == "" {
			continue
		}
		if rest == "output" {
			return Entry{i, 0}, nil
		}
		if k := slices.Index(outputNames[n.Op], rest); k >= 0 {
			return Entry{i, k}, nil
		}
		if number, ok := strings.CutPrefix(rest, "output"); ok {
			if k, ok := parseInt(number); ok && k >= 0 && k < maxParts {
				return Entry{i, int(k)}, nil
			}
		}
	}
	return Entry{}, &Error{Op: "load", Node: name, Offset: -1, Err: fmt.Errorf("%w: no node and none of its outputs is called so", ErrOutput)}
}
