package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Port is an input or output of a model, in the protocol's words.
type Port struct {
	Name     string
	Datatype string
	Shape    []int64 // -1 for a dim that is open; nil where even the rank is
	Optional bool
	DType    tensor.DType
}

// Fits reports whether a tensor of a shape is one for the port.
func (p *Port) Fits(shape []int) bool {
	if p.Shape == nil {
		return true
	}
	if len(p.Shape) != len(shape) {
		return false
	}
	for i, d := range p.Shape {
		if d >= 0 && d != int64(shape[i]) {
			return false
		}
	}
	return true
}

// Version is one version of a model, compiled. It is safe for concurrent use, between Repository.Acquire and Release.
type Version struct {
	Name            string
	Number          int64
	Config          *Config // completed by what the model says
	Inputs, Outputs []Port
	Labels          map[string][]string // of classes, by output
	Stats           *Stats
	LoadTime        time.Duration
	Sequences       *Sequences // nil for models without state

	stamp    string
	batching *Batching
	program  *carve.Program
	model    *carve.Model
	batcher  *carve.Batcher // nil where requests run one by one, through gate
	gate     gate
	turns    *turns        // among the runs of all models; nil for none
	refs     atomic.Int64  // users, and the repository
	uses     *atomic.Int64 // of the repository's versions together: a clock that does not jump
	used     atomic.Int64  // what uses was at the last one
	freed    chan struct{}
	lost     atomic.Bool // a device that it was compiled for works no more
}

// String returns the number in decimal, as the protocol has it.
func (v *Version) String() string { return strconv.FormatInt(v.Number, 10) }

// Bytes returns the memory that the compiled model holds outside of Go's heap, and the states of its sequences.
func (v *Version) Bytes() int64 {
	m := v.program.Memory()
	n := m.Arenas + m.Kept + m.PackedWeights + m.CopiedWeights
	if v.Sequences != nil {
		n += v.Sequences.Bytes()
	}
	for _, d := range m.Devices {
		if d.Name == "host" {
			n += d.Beside
		}
	}
	return n
}

// Program returns what runs the version, for reports. It is closed with the version.
func (v *Version) Program() *carve.Program { return v.program }

// Run computes the outputs for inputs by name. It waits for a place among MaxSessions runs, by priority where the model's configuration
// has priority_levels: 1 is the highest, 0 the model's default, which goes among the requests of models without levels. Requests of a model
// whose configuration has dynamic_batching wait in a carve.Batcher, and run together. It
// returns how long the request has waited. A panic of a backend is an error of this request. After one that wraps device.ErrGone the
// version is of no use: the next Acquire loads it again.
func (v *Version) Run(ctx context.Context, priority uint64, inputs map[string]tensor.Value) (out map[string]tensor.Value, waited time.Duration, err error) {
	rank := v.batching.rank(priority)
	if v.batcher != nil {
		w := &wait{Context: ctx, rank: rank}
		if ctx = w; rank != 0 {
			ctx = carve.WithPriority(w, -rank)
		}
		out, err = v.guard(func() (map[string]tensor.Value, error) { return v.batcher.Run(ctx, inputs) })
		if v.turns != nil && errors.Is(err, carve.ErrOverloaded) {
			v.turns.strained()
		}
		return out, w.queued, err
	}
	begin, turn := time.Now(), ctx
	if b := v.batching; b != nil && b.Timeout > 0 {
		var cancel context.CancelFunc
		turn, cancel = context.WithTimeout(ctx, b.Timeout)
		defer cancel()
	}
	if err := v.gate.enter(turn, rank); err != nil {
		return nil, time.Since(begin), err
	}
	if v.turns == nil {
		defer v.gate.leave()
		waited = time.Since(begin)
		out, err = v.run(ctx, inputs)
		return out, waited, err
	}
	if err := v.turns.enter(turn, rank); err != nil {
		v.gate.leave()
		return nil, time.Since(begin), err
	}
	waited = time.Since(begin)
	if do := v.turns.do(); do != nil {
		out, err = v.runBy(ctx, do, inputs)
	} else {
		out, err = v.runTurn(ctx, inputs)
	}
	return out, waited, err
}

// runTurn runs the program, and gives the run's places back.
func (v *Version) runTurn(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	defer v.gate.leave()
	defer v.turns.leave()
	return v.run(ctx, inputs)
}

// runBy is runTurn by somebody else, who gives places to the next before this goroutine is awake.
func (v *Version) runBy(ctx context.Context, do func(run func()), inputs map[string]tensor.Value) (out map[string]tensor.Value, err error) {
	do(func() { out, err = v.runTurn(ctx, inputs) })
	return out, err
}

// run runs the program once.
func (v *Version) run(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	begin := time.Now()
	defer func() { v.ran(time.Since(begin)) }()
	return v.guard(func() (map[string]tensor.Value, error) { return v.program.Run(ctx, inputs) })
}

// ran notes a run.
func (v *Version) ran(took time.Duration) {
	v.Stats.Runs.Add(1)
	if v.turns != nil {
		v.turns.ran(took)
	}
}

// guard turns a panic into an error.
func (v *Version) guard(f func() (map[string]tensor.Value, error)) (out map[string]tensor.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = oip.Errorf(oip.Internal, "model %q, version %d: a run has panicked: %v", v.Name, v.Number, p)
			debug.PrintStack()
		}
		if errors.Is(err, device.ErrGone) {
			v.lost.Store(true)
		}
	}()
	return f()
}

// retain counts a user more, unless the version is over already.
func (v *Version) retain() bool {
	for {
		n := v.refs.Load()
		if n <= 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release ends a use. The last one frees the model where it has been unloaded.
func (v *Version) Release() {
	v.used.Store(v.uses.Add(1))
	if v.refs.Add(-1) > 0 {
		return
	}
	if v.Sequences != nil {
		v.Sequences.close()
	}
	if v.batcher != nil {
		_ = v.batcher.Close()
	}
	_ = v.program.Close()
	_ = v.model.Close()
	close(v.freed)
}

// source is where a version's files lie: a file system, or a folder of the system's, whose files can be mapped.
type source struct {
	fsys  fs.FS
	dir   string // "" where it is none of the system's
	bytes int64  // of all files, where they came with a call
}

func (s source) open(ctx context.Context, file string) (*carve.Model, error) {
	if s.dir != "" {
		return carve.Open(ctx, filepath.Join(s.dir, filepath.FromSlash(file)))
	}
	return carve.OpenFS(ctx, s.fsys, file)
}

// load compiles a version, and warms it up.
func (r *Repository) load(ctx context.Context, from source, f *folder, at found, c *Config) (v *Version, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, fmt.Errorf("loading has panicked: %v", p)
			debug.PrintStack()
		}
	}()
	begin, file := time.Now(), at.file
	if named := c.File(); named != "" && f.dir != "" {
		if file = path.Join(f.dir, strconv.FormatInt(at.number, 10), named); !fs.ValidPath(file) || strings.Contains(named, "/") {
			return nil, fmt.Errorf("%w: default_model_filename %q", ErrConfig, named)
		}
	}
	if file == "" {
		return nil, fmt.Errorf("version %d has no file that is a model (model.onnx, model.carve, model-symbol.json)", at.number)
	}
	m, err := from.open(ctx, file)
	if err != nil {
		return nil, err
	}
	o := r.o.Compile
	o.CopyWeights = o.CopyWeights || from.dir != "" // a file that is written over must not change a model that is served
	if n := c.Instances(); n > 0 {
		o.MaxSessions = n
	}
	p, err := carve.Compile(ctx, m, &o)
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	v = &Version{Name: f.name, Number: at.number, Config: c, stamp: at.stamp + f.stamp, program: p, model: m, batching: c.Batching(), uses: &r.uses, freed: make(chan struct{})}
	v.refs.Store(1)
	v.gate.free, v.gate.limit = cmp.Or(o.MaxSessions, r.o.Runs), r.o.Queue
	if o.MaxSessions <= r.o.Runs {
		v.turns = &turns{gate: &r.gate, apart: &r.apart}
		v.gate.filling = r.gate.strained
	}
	if v.batching != nil && v.batching.Queue > 0 {
		v.gate.limit = v.batching.Queue
	}
	err = v.describe(ctx, from.fsys, f, c, cmp.Or(r.o.MemoryLimit, mostWarm))
	if err == nil {
		err = r.batch(ctx, v)
	}
	if err != nil {
		v.Release()
		return nil, err
	}
	v.LoadTime = time.Since(begin)
	return v, nil
}

// describe fills in what clients are told of a version, and warms it up with no more memory than limit.
func (v *Version) describe(ctx context.Context, fsys fs.FS, f *folder, c *Config, limit int64) error {
	v.Stats = &Stats{} // of the warm-up; the caller sets the lasting ones
	ins, err := ports(v.program.Inputs(), true)
	if err != nil {
		return err
	}
	v.Inputs = ins
	if v.Outputs, err = ports(v.program.Outputs(), false); err != nil {
		return err
	}
	if v.Labels, err = readLabels(fsys, f.dir, c.labels()); err != nil {
		return err
	}
	if v.Sequences, err = newSequences(c, fsys, f.dir, v.Inputs, v.Outputs, limit); err != nil {
		return err
	}
	if v.Sequences != nil { // clients see neither states nor controls
		v.Inputs, v.Outputs = v.Sequences.visible(v.Inputs, v.Outputs)
	}
	if v.Config, err = c.complete(v.Name, v.Inputs, v.Outputs); err != nil {
		return err
	}
	return v.warm(ctx, fsys, f.dir, limit)
}

// ports returns ports in the protocol's words. An input that the protocol cannot carry is an error; outputs of that kind are
// left out, unless there are no others.
func ports(list []carve.Port, inputs bool) ([]Port, error) {
	var out []Port
	var problem error
	for _, p := range list {
		datatype, ok := oip.Datatype(p.Type.DType)
		if !ok || !p.Type.IsTensor() {
			problem = oip.Errorf(oip.Unsupported, "%q is of type %v, for which the protocol has no datatype", p.Name, p.Type)
			if inputs && !p.Optional {
				return nil, problem
			}
			continue
		}
		out = append(out, Port{Name: p.Name, Datatype: datatype, Shape: openShape(p.Type.Shape), Optional: p.Optional, DType: p.Type.DType})
	}
	if len(out) == 0 && !inputs && problem != nil {
		return nil, problem
	}
	return out, nil
}

func openShape(s graph.Shape) []int64 {
	if !s.Known() && s == nil {
		return nil
	}
	out := make([]int64, len(s))
	for i, d := range s {
		n, ok := d.Const()
		if !ok {
			n = -1
		}
		out[i] = n
	}
	return out
}

// readLabels reads the label files: a line for each class.
func readLabels(fsys fs.FS, dir string, files map[string]string) (map[string][]string, error) {
	out := map[string][]string{}
	for output, name := range files {
		b, err := readSmall(fsys, dir, name)
		if err != nil {
			return nil, fmt.Errorf("labels of output %q: %w", output, err)
		}
		out[output] = strings.Split(strings.TrimRight(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n"), "\n")
	}
	return out, nil
}

// readSmall reads a file of a model's folder that is at most 64 MiB large.
func readSmall(fsys fs.FS, dir, name string) ([]byte, error) {
	at := path.Join(dir, name)
	if !fs.ValidPath(name) {
		return nil, fmt.Errorf("%w: file name %q", ErrConfig, name)
	}
	info, err := fs.Stat(fsys, at)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > 64<<20 {
		return nil, fmt.Errorf("%s is no file of at most 64 MiB", at)
	}
	return fs.ReadFile(fsys, at)
}

// Bounds of what a warm-up makes: elements of an input, and bytes of a run where there is no limit of memory.
const (
	maxWarm  = math.MaxInt32
	mostWarm = 4 << 30
)
