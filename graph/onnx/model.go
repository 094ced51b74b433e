package onnx

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/files"
)

// Options settles how a model is read. nil means the defaults.
type Options struct {
	// Copy reads files into memory instead of mapping them: a mapped file that another process cuts short is fatal to
	// whoever reads the pages that are gone. Default false.
	Copy bool
	// Override names initializers that stay inputs, with their data as the default (Model.Defaults): of those that a model
	// of IR version 4 or above lists among its inputs, so that a caller may give another value. The rest of them are
	// constants, which are folded and packed. A name that is none of them is an error (ErrOverride).
	Override []string
	// DataDir is the folder of external data, for Load; default the model's own.
	DataDir string
	// Data is where Parse finds external data; nil refuses it. Load and LoadFS do not look at it.
	Data fs.FS
	// Weights are the tensors that a model refers to by their index (see Detach); nil for other models.
	Weights []*tensor.Tensor
	// MaxNodes bounds the nodes of the graph with all regions, functions inlined; default 4 Mi.
	MaxNodes int
	// MaxInlined bounds those of them that calls of functions make, since few bytes can call for many; default 256 Ki.
	MaxInlined int
	// MaxDense bounds the bytes of all sparse tensors made dense; default 256 MiB.
	MaxDense int
}

// Model is a graph with what an ONNX file says beside it. It is safe for concurrent reads. Constants of its graph refer to
// the file: what uses them keeps the Model.
type Model struct {
	Graph           *graph.Graph
	File            string // path or name, for messages; empty for Parse
	IRVersion       int64
	Opsets          map[string]int // version by domain; the default domain is ""
	Producer        string
	ProducerVersion string
	Domain          string
	Version         int64
	Doc             string
	Metadata        map[string]string
	Outputs         []string                  // names of Graph.Outputs in the file, whatever passes do to the values
	Overridable     []string                  // initializers that Options.Override may name, in the order of the inputs
	Defaults        map[string]*tensor.Tensor // of inputs that have data too: those that Options.Override names
	FileBytes       int64                     // size of the model file and of the external data that it uses

	maps files.Maps
}

// Close unmaps the model's files. Nothing that refers to its constants may be used afterwards. Closing again does nothing.
func (m *Model) Close() error {
	err := m.maps.Close()
	m.maps = nil
	return err
}

// Evict tells the system that the mapped files will not be read soon: their pages stop counting as memory of the process,
// and are mapped again when they are read. It does nothing for data that was copied.
func (m *Model) Evict() error {
	return m.maps.Evict()
}

// Load reads the model at a path. File and external data are mapped into memory and stay so until Close, or until nobody
// can reach Model.Graph. Only regular files are read, and external data only inside the model's folder. It stops soon
// after ctx ends. Faults are an *Error. It costs time and memory in the size of the graph, not of the
// weights: a node with a constant of its own and a type in value_info takes some microseconds and 1.2 KiB.
func Load(ctx context.Context, file string, o *Options) (*Model, error) {
	dir := filepath.Dir(file)
	if o != nil && o.DataDir != "" {
		dir = o.DataDir
	}
	data := &dataFiles{dir: dir, Set: files.Set{Copy: o != nil && o.Copy}}
	b, err := data.Path(file)
	if err != nil {
		return nil, &Error{Op: "load", File: file, Err: err}
	}
	return load(ctx, file, b, data, o)
}

// LoadFS reads a model from a file system, such as one that go:embed fills. name is a path in it. External data is read
// as Load does, and links on its way are refused where the file system can tell. Faults are an *Error.
func LoadFS(ctx context.Context, fsys fs.FS, name string, o *Options) (*Model, error) {
	if fsys == nil {
		return nil, &Error{Op: "load", File: name, Err: fmt.Errorf("no file system: %w", fs.ErrInvalid)}
	}
	data := &dataFiles{fsys: fsys, dir: path.Dir(name)}
	b, err := data.readFS(name)
	if err != nil {
		return nil, &Error{Op: "load", File: name, Err: err}
	}
	return load(ctx, name, b, data, o)
}

// Parse reads a model from its bytes, to which its constants refer: they must not change. External data is found in
// Options.Data. Faults are an *Error.
func Parse(ctx context.Context, b []byte, o *Options) (*Model, error) {
	data := &dataFiles{dir: ".", Set: files.Set{Bytes: int64(len(b))}}
	if o != nil {
		data.fsys = o.Data
	}
	data.none = data.fsys == nil
	return load(ctx, "", b, data, o)
}

func load(ctx context.Context, file string, b []byte, data *dataFiles, o *Options) (m *Model, err error) {
	l := &loader{ctx: ctx, data: data, words: words{}, symbols: map[string]string{}, taken: newNames(), labels: 256 << 20}
	if o != nil {
		l.o = *o
	}
	if l.o.MaxNodes <= 0 {
		l.o.MaxNodes = 4 << 20
	}
	if l.o.MaxInlined <= 0 {
		l.o.MaxInlined = 256 << 10
	}
	if l.o.MaxDense <= 0 {
		l.o.MaxDense = 256 << 20
	}
	l.nodes, l.inlined, l.dense = l.o.MaxNodes, l.o.MaxInlined, l.o.MaxDense
	defer func() {
		data.release()
		if err == nil {
			return
		}
		if closed := data.Maps.Close(); closed != nil {
			err = errors.Join(err, closed)
		}
		var own *Error
		if !errors.As(err, &own) {
			own = &Error{Op: "load", Err: err}
		}
		own.File = file
		m, err = nil, own
	}()
	l.parse.External = l.external
	r := newReader(ctx)
	if l.proto, err = r.model(b); err != nil {
		return nil, err
	}
	outputs, defaults, err := l.build()
	if err != nil {
		return nil, err
	}
	p := l.proto
	m = &Model{Graph: l.top, File: file, IRVersion: p.ir, Opsets: p.opsets, Producer: p.producer[0],
		ProducerVersion: p.producer[1], Domain: p.domain, Version: p.version, Doc: p.doc, Metadata: p.meta,
		Outputs: outputs, Overridable: l.overridable, Defaults: defaults, FileBytes: data.Bytes, maps: data.Maps}
	if len(m.maps) > 0 {
		// A mapping ends when nobody holds it; whoever holds the graph and not the Model must still be able to read.
		runtime.AddCleanup(m.Graph, func(files.Maps) {}, m.maps)
	}
	return m, nil
}
