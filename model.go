package carve

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/constants"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/partition"
)

// Model is a loaded model: its graph, and the weights in every format in which a Program wanted them, shared by all
// Programs of the Model. It is safe for concurrent use; the graph must not be changed.
type Model struct {
	graph  *graph.Graph
	source *onnx.Model // nil for models made from a graph

	hashed  sync.Once
	hash    string // of graph and weights, once it was asked for
	hashErr error

	mu     sync.Mutex
	packed *constants.Shared
	users  int // Programs that are open and compilations under way
	closed bool
}

// Open loads an ONNX model file. Weights stay in the file, which is mapped; see Options.CopyWeights. Initializers that the
// model lists among its inputs are constants; see FromONNX.
func Open(ctx context.Context, path string) (*Model, error) {
	m, err := onnx.Load(background(ctx), path, nil)
	if err != nil {
		return nil, err
	}
	return FromONNX(m), nil
}

// OpenFS loads an ONNX model from a file system, such as an embed.FS.
func OpenFS(ctx context.Context, fsys fs.FS, name string) (*Model, error) {
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
	m.source = s
	return m
}

// Graph returns the model's graph as it was loaded. It must not be changed.
func (m *Model) Graph() *graph.Graph {
	if m == nil {
		return nil
	}
	return m.graph
}

// Source returns what the model file says beside the graph; nil for a model made from a graph.
func (m *Model) Source() *onnx.Model {
	if m == nil {
		return nil
	}
	return m.source
}

// defaults returns the data of inputs that have some, by name.
func (m *Model) defaults() map[string]*tensor.Tensor {
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

// retain counts one more user of the weights, until release. The error wraps fs.ErrClosed after Close.
func (m *Model) retain() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("model: %w", fs.ErrClosed)
	}
	m.users++
	return nil
}

// release undoes a retain.
func (m *Model) release() {
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
	if m.source != nil {
		return m.source.Close()
	}
	return nil
}

// evict gives the pages of the model's files back; constants that are still read are mapped again.
func (m *Model) evict() {
	if m.source != nil {
		_ = m.source.Evict() // advice: where it fails the pages stay
	}
}

// private reports whether a device's memory ends with the Program, because the backend does, which Compile opened, or because
// the Program has an allocator of its own: what lies there is not shared.
func (c *compilation) private(id tensor.DeviceID) bool {
	if id.IsHost() {
		return c.o.Allocator != nil // which may end with the Program
	}
	for _, b := range c.opened.backends {
		for _, d := range b.Devices() {
			if d.ID() == id {
				return true
			}
		}
	}
	return false
}

// pack is the pass that converts constants, once per constant and format: those of the model for all its Programs, those
// that simplification made for this Program alone.
func (c *compilation) pack() error {
	var packs []*partition.Pack
	var list []constants.Request
	if err := c.blocks(func(g *graph.Graph) error {
		for i := range c.results[g].Packs {
			p := &c.results[g].Packs[i]
			packs = append(packs, p)
			list = append(list, constants.Request{Key: constants.Key{Constant: p.Constant, Format: p.Format}, Name: p.Name})
		}
		return nil
	}); err != nil {
		return err
	}
	made, err := c.packer.Pack(c.ctx, list, constants.Job{Threads: c.o.Threads, Progress: c.progress})
	if err != nil {
		return err
	}
	for i, p := range packs {
		p.Packed.Data, p.Packed.Handle = made[i].Data, made[i].Handle
		// Reports need the type; the data of folded constants need not be kept.
		p.Constant = &tensor.Tensor{DType: p.Constant.DType, Shape: p.Constant.Shape}
	}
	return nil
}

// ownConstants is the pass that gives groups which read constants as the model stores them copies of their own where that is
// needed: all of them under Options.CopyWeights, so that the model's file is not read after Compile, and otherwise those
// that a file holds at an address unfit for their dtype. The defaults of inputs are treated alike. Equal constants are
// copied once, however often groups are compiled.
func (c *compilation) ownConstants() error {
	var list []*tensor.Tensor
	var values []*graph.Value
	want := func(t *tensor.Tensor) bool {
		return t.DType != tensor.String && (c.o.CopyWeights || exec.Misaligned(t))
	}
	collect := func(g *graph.Graph) {
		for v := range g.Constants() {
			if v.IsConst() && v.Format == graph.HostFormat && want(v.Const) {
				values, list = append(values, v), append(list, v.Const)
			}
		}
	}
	err := c.blocks(func(g *graph.Graph) error {
		collect(g)
		for _, gr := range c.results[g].Groups {
			collect(gr.Body)
		}
		return nil
	})
	if err != nil {
		return err
	}
	defaults := c.model.defaults()
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if t := defaults[name]; want(t) {
			list = append(list, t)
		}
	}
	if err := c.copies.Add(c.ctx, c.devices[tensor.DeviceID{}], list); err != nil {
		return err
	}
	for _, v := range values {
		if own := c.copies.Of(v.Const); own != nil {
			v.Const = own
		}
	}
	return nil
}

// Group implements exec.Code.
func (c *compilation) Group(n *graph.Node) (exe backend.Executable, b backend.Backend, dynamic bool) {
	i := slices.IndexFunc(c.backends, func(b backend.Backend) bool { return b.Info().Name == n.Backend })
	return c.exes[n], c.backends[i], c.dynamic[n]
}

// Hop implements exec.Code.
func (c *compilation) Hop(g *graph.Graph, n *graph.Node) *convert.Converter { return c.hops[g][n] }
