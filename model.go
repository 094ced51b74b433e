package carve

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// Model is a loaded model: its graph, and the weights in every format in which a Program wanted them, shared by all
// Programs of the Model. It is safe for concurrent use; the graph must not be changed. Close it after its Programs.
type Model struct {
	graph  *graph.Graph
	source *onnx.Model // nil for models made from a graph

	mu     sync.Mutex
	packed map[packKey]*packedWeight
	closed bool
}

type packKey struct {
	t *tensor.Tensor
	f graph.Format
}

type packedWeight struct {
	mu     sync.Mutex
	done   bool
	mem    device.Memory
	device device.Device
}

// Open loads an ONNX model file. Weights stay in the file, which is mapped; see Options.CopyWeights.
func Open(ctx context.Context, path string) (*Model, error) {
	m, err := onnx.Load(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	return fromSource(m), nil
}

// OpenFS loads an ONNX model from a file system, such as an embed.FS.
func OpenFS(ctx context.Context, fsys fs.FS, name string) (*Model, error) {
	m, err := onnx.LoadFS(ctx, fsys, name, nil)
	if err != nil {
		return nil, err
	}
	return fromSource(m), nil
}

// Parse loads an ONNX model from memory. It refers to data, which must not change.
func Parse(ctx context.Context, data []byte) (*Model, error) {
	m, err := onnx.Parse(ctx, data, nil)
	if err != nil {
		return nil, err
	}
	return fromSource(m), nil
}

// FromGraph makes a Model of a graph, which must not change afterwards.
func FromGraph(g *graph.Graph) *Model {
	return &Model{graph: g, packed: map[packKey]*packedWeight{}}
}

func fromSource(s *onnx.Model) *Model {
	m := FromGraph(s.Graph)
	m.source = s
	return m
}

// Graph returns the model's graph as it was loaded. It must not be changed.
func (m *Model) Graph() *graph.Graph { return m.graph }

// Source returns what the model file says beside the graph; nil for a model made from a graph.
func (m *Model) Source() *onnx.Model { return m.source }

// Close frees the weights and the mapped file. Programs of the model must be closed before.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	for _, p := range m.packed {
		if p.done {
			p.device.Free(p.mem)
		}
	}
	m.packed = nil
	if m.source != nil {
		return m.source.Close()
	}
	return nil
}

// weight returns the entry for a constant in a format, which the first caller fills.
func (m *Model) weight(k packKey) (*packedWeight, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("model: %w", fs.ErrClosed)
	}
	w := m.packed[k]
	if w == nil {
		w = &packedWeight{}
		m.packed[k] = w
	}
	return w, nil
}

// packedBytes returns the memory of all packed weights.
func (m *Model) packedBytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var n int64
	for _, p := range m.packed {
		n += p.mem.Size
	}
	return n
}
