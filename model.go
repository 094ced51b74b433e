package carve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bundle"
	"github.com/carve-dev/carve/internal/constants"
)

// Model is a loaded model: its graph, and the weights in every format in which a Program wanted them, shared by all
// Programs of the Model. It is safe for concurrent use; the graph must not be changed.
type Model struct {
	graph  *graph.Graph
	source *onnx.Model               // what the file says beside the graph; nil for models made from a graph
	files  weightFiles               // what the weights lie in; nil for models made from a graph
	bundle *bundled                  // nil for models that are to be compiled
	inputs map[string]*tensor.Tensor // data of inputs that need not be given, of a bundle
	outer  *Model                    // the one of a bundle, where this is the original in it
	inner  bool                      // it is a part of another one, which a run compiles

	hashed  sync.Once
	hash    string // of graph and weights, once it was asked for
	hashErr error

	mu     sync.Mutex
	packed *constants.Shared
	users  int // Programs that are open and compilations under way
	closed bool
}

// weightFiles are files that constants of a graph refer to.
type weightFiles interface {
	Evict() error
	Close() error
}

// Open loads an ONNX model file, a bundle that Program.SaveBundle wrote, or a model of Apache MXNet: its symbol, as in
// net-symbol.json, with the newest parameters beside it (see mxnet.Load and FromMXNet). Weights stay in the file, which is mapped;
// see Options.CopyWeights. Initializers that an ONNX model lists among its inputs are constants; see FromONNX.
func Open(ctx context.Context, path string) (*Model, error) {
	if bundle.IsFile(path) {
		return openBundle(path)
	}
	if mxnet.IsModel(path) {
		return fromMXNet(mxnet.Load(background(ctx), path, nil))
	}
	m, err := onnx.Load(background(ctx), path, nil)
	if err != nil {
		return nil, err
	}
	return FromONNX(m), nil
}

// OpenFS loads an ONNX model, or one of Apache MXNet by its symbol or parameters, from a file system such as an embed.FS.
func OpenFS(ctx context.Context, fsys fs.FS, name string) (*Model, error) {
	if mxnet.IsName(name) {
		return fromMXNet(mxnet.LoadFS(background(ctx), fsys, name, nil))
	}
	m, err := onnx.LoadFS(background(ctx), fsys, name, nil)
	if err != nil {
		return nil, err
	}
	return FromONNX(m), nil
}

// Parse loads an ONNX model from memory. It refers to data, which must not change.
func Parse(ctx context.Context, data []byte) (*Model, error) {
	m, err := onnx.Parse(background(ctx), data, nil)
	if err != nil {
		return nil, err
	}
	return FromONNX(m), nil
}

// FromGraph makes a Model of a graph, which must not change afterwards.
func FromGraph(g *graph.Graph) *Model {
	m := &Model{graph: g}
	m.packed = constants.NewShared(g, m.evict)
	return m
}

// FromONNX makes a Model of an ONNX model that the caller loaded with options of its own, such as onnx.Options.Override:
// the initializers that it names stay inputs, and a run that does not give one takes its data. The Model closes it.
func FromONNX(s *onnx.Model) *Model {
	if s == nil {
		return FromGraph(nil)
	}
	m := FromGraph(s.Graph)
	m.source, m.files = s, s
	return m
}

// FromMXNet makes a Model of one of Apache MXNet that the caller loaded with options of its own, such as the shapes of its inputs.
// The Model closes it.
func FromMXNet(s *mxnet.Model) *Model {
	if s == nil || s.Graph == nil {
		return FromGraph(nil)
	}
	m := FromGraph(s.Graph)
	m.source = &onnx.Model{Graph: s.Graph, File: s.File, IRVersion: mxnetIR, Opsets: s.Graph.Opsets, Producer: "Apache MXNet",
		ProducerVersion: s.Graph.Meta[mxnet.VersionKey], Metadata: s.Graph.Meta, Outputs: s.Outputs, FileBytes: s.FileBytes}
	m.files = s
	return m
}

// mxnetIR is the version of ONNX's format that a model of MXNet would be written in.
const mxnetIR = 10

func fromMXNet(s *mxnet.Model, err error) (*Model, error) {
	if err != nil {
		return nil, err
	}
	return FromMXNet(s), nil
}

// Graph returns the model's graph as it was loaded. It must not be changed.
func (m *Model) Graph() *graph.Graph {
	if m == nil {
		return nil
	}
	return m.graph
}

// Source returns what the model file says beside the graph, in ONNX's terms; nil for a model made from a graph.
func (m *Model) Source() *onnx.Model {
	if m == nil {
		return nil
	}
	return m.source
}

// defaults returns the data of inputs that have some, by name.
func (m *Model) defaults() map[string]*tensor.Tensor {
	if m.inputs != nil {
		return m.inputs
	}
	if m.source == nil {
		return nil
	}
	return m.source.Defaults
}

// Close ends the Model: it cannot be compiled any more. Its weights and the mapped file are freed at once, or when the
// last of its Programs is closed. Closing twice does nothing.
func (m *Model) Close() error {
	if m == nil || m.packed == nil { // nobody made it
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	return m.freeUnused()
}

// errModelClosed is what a Model is not good for after Close. Its text says what is closed: ErrClosed's speaks of a program.
var errModelClosed = modelClosed{}

type modelClosed struct{}

func (modelClosed) Error() string { return "model is closed" }

// Unwrap returns what the error may be asked for.
func (modelClosed) Unwrap() []error { return []error{ErrClosed, fs.ErrClosed} }

// retain counts one more user of the weights, until release. The error wraps ErrClosed and fs.ErrClosed after Close.
func (m *Model) retain() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errModelClosed
	}
	if m.outer != nil {
		if err := m.outer.retain(); err != nil {
			return err
		}
	}
	m.users++
	return nil
}

// release undoes a retain.
func (m *Model) release() {
	if m.outer != nil {
		defer m.outer.release() // when the lock is free: the outer one closes this one
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users--
	_ = m.freeUnused() // an error of unmapping concerns nobody here
}

// freeUnused frees everything once the Model is closed and has no users. It is called with mu held.
func (m *Model) freeUnused() error {
	if !m.closed || m.users > 0 {
		return nil
	}
	m.packed.Free()
	if m.bundle != nil {
		return m.bundle.close()
	}
	if m.files != nil {
		return m.files.Close()
	}
	return nil
}

// evict gives the pages of the model's files back; constants that are still read are mapped again.
func (m *Model) evict() {
	if m.files != nil {
		_ = m.files.Evict() // advice: where it fails the pages stay
	}
}

// ErrBundle is wrapped by errors about files that are no sound bundles: they name the offset, what was expected and what was found.
var ErrBundle = bundle.ErrFormat

// bundled is what a Model has of a bundle.
type bundled struct {
	f        *bundle.File
	pool     *bundle.Pool
	notes    *bundle.Notes
	defaults map[string]*tensor.Tensor
	outputs  []*graph.Value // names and types that the model declares
	once     sync.Once
	original *Model // nil where it is not portable
	err      error
}

// openBundle opens a bundle.
func openBundle(path string) (*Model, error) {
	f, err := bundle.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := readBundle(f)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// readBundle reads all of a bundle but the constants' bytes and what is needed later.
func readBundle(f *bundle.File) (*Model, error) {
	b := &bundled{f: f, defaults: map[string]*tensor.Tensor{}}
	var err error
	if b.notes, err = bundle.ReadNotes(f); err != nil {
		return nil, err
	}
	if b.pool, err = f.Pool(); err != nil {
		return nil, err
	}
	g, err := bundle.ReadGraph(f, bundle.Carved, b.pool)
	if err != nil {
		return nil, err
	}
	at := bundle.ID{Kind: bundle.KindNotes}
	for _, o := range b.notes.Outputs {
		t, err := graph.ParseType(o.Type)
		if err != nil {
			return nil, f.Fault(at, "the type of an output", err)
		}
		b.outputs = append(b.outputs, &graph.Value{Name: o.Name, Type: t})
	}
	if len(b.outputs) != len(g.Outputs) {
		return nil, f.Fault(at, fmt.Sprintf("%d outputs, as the graph has", len(g.Outputs)), fmt.Errorf("%d", len(b.outputs)))
	}
	for _, name := range slices.Sorted(maps.Keys(b.notes.Defaults)) {
		if b.defaults[name], err = b.pool.Tensor(b.notes.Defaults[name], b.notes.Types[name]); err != nil {
			return nil, err
		}
	}
	m := FromGraph(g)
	m.bundle, m.inputs = b, b.defaults
	m.hashed.Do(func() {
		for _, x := range b.notes.Facts {
			if x[0] == modelFact {
				m.hash = x[1]
			}
		}
	})
	return m, nil
}

func (b *bundled) close() error {
	if b.original != nil {
		_ = b.original.Close()
	}
	return b.f.Close()
}

// outputs returns the outputs as the model names and declares them.
func (m *Model) outputs() []*graph.Value {
	if m.bundle != nil {
		return m.bundle.outputs
	}
	return m.graph.Outputs
}

// original returns the model that a portable bundle was made of, nil for others.
func (m *Model) original() (*Model, error) {
	b := m.bundle
	b.once.Do(func() {
		if b.f.Offset(bundle.ID{Kind: bundle.KindGraph, Number: bundle.Original}) < 0 {
			b.err = fmt.Errorf("%w: it does not have the model as it was loaded", errNotPortable)
			return
		}
		g, err := bundle.ReadGraph(b.f, bundle.Original, b.pool)
		if err != nil {
			b.err = err
			return
		}
		b.original = FromGraph(g)
		b.original.outer, b.original.inputs = m, b.defaults
	})
	return b.original, b.err
}

var errNotPortable = errors.New("the bundle is not portable")

// plan returns the text of the plan.
func (b *bundled) plan() ([]byte, error) { return b.f.Section(bundle.ID{Kind: bundle.KindPlan}, true) }

// Plan returns the plan in a bundle; nil for other models.
func (m *Model) Plan() (*Plan, error) {
	if m == nil || m.bundle == nil {
		return nil, nil
	}
	text, err := m.bundle.plan()
	if err != nil {
		return nil, err
	}
	return ParsePlan(string(text))
}

// tell adds what the bundle says of the compilation to a report.
func (b *bundled) tell(r *Report) error {
	if b == nil {
		return nil
	}
	id := bundle.ID{Kind: bundle.KindReport}
	text, err := b.f.Section(id, true)
	if err != nil {
		return err
	}
	var told Report
	if err := json.Unmarshal(text, &told); err != nil {
		return b.f.Fault(id, "a report", err)
	}
	r.Folded, r.Placement, r.Eliminated = append(r.Folded, told.Folded...), told.Placement, told.Eliminated
	r.Rejected, r.Overruled = append(r.Rejected, told.Rejected...), append(r.Overruled, told.Overruled...)
	return nil
}

// fill returns the options with the bundle's in the places of those that are not set.
func (b *bundled) fill(o *Options) *Options {
	var out Options
	if o != nil {
		out = *o
	}
	x := &b.notes.Options
	if len(out.Backends) == 0 {
		for _, name := range x.Backends { // never options, which may name libraries to be opened: a bundle may come from anywhere
			out.Backends = append(out.Backends, backend.Config{Name: name})
		}
	}
	fillMap(&out.Devices, x.Devices)
	fillMap(&out.DisabledProperties, x.Disabled)
	fillMap(&out.Dims, x.Dims)
	fillMap(&out.Bounds, x.Bounds)
	fillMap(&out.Shapes, x.Shapes)
	if out.Pins == nil {
		out.Pins = x.Pins
	}
	if p, err := ParsePlacement(x.Placement); err == nil && out.Placement == 0 {
		out.Placement = p
	}
	fillNumber(&out.Threads, x.Threads)
	fillNumber(&out.MaxFold, x.MaxFold)
	fillNumber(&out.MinNodes, x.MinNodes)
	out.Strict, out.Isolated = out.Strict || x.Strict, out.Isolated || x.Isolated
	out.Disconnected, out.KeepOrder = out.Disconnected || x.Disconnected, out.KeepOrder || x.KeepOrder
	return &out
}

func fillMap[V any](m *map[string]V, from map[string]V) {
	if len(*m) == 0 {
		*m = from
	}
}

func fillNumber[T int | int64](n *T, from T) {
	if *n == 0 {
		*n = from
	}
}

// openProgram is Compile of a bundle: what is in it where that fits, the original otherwise.
func (m *Model) openProgram(ctx context.Context, o *Options) (*Program, error) {
	filled := m.bundle.fill(o)
	p, err := compile(ctx, m, filled, nil)
	if err == nil || !errors.Is(err, ErrPlanMisfit) {
		return p, err
	}
	original, missing := m.original()
	if original == nil {
		return nil, errors.Join(err, missing)
	}
	filled.withDefaults().Logger.WarnContext(ctx, "the bundle is for something else: its model is compiled", "error", err)
	return compile(ctx, original, filled, nil)
}
