package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

// job is a model on its way to a run: opened, its shapes decided, compiled.
type job struct {
	model    *carve.Model
	feeds    map[string]tensor.Value // from --input
	binding  *binding
	program  *carve.Program
	shown    atomic.Pointer[progress] // what tells of the compiler's progress, or of a run's
	compiled time.Duration            // loading and compiling, with the first plan
	inPlace  map[string]string        // outputs that lie in the places of inputs, by these
}

// prepare opens the model at path, decides its shapes, and makes the options of its compilation. Close the job.
func (a *app) prepare(ctx context.Context, path string, f *modelFlags) (j *job, o *carve.Options, err error) {
	j, o = &job{}, &carve.Options{}
	defer func() {
		if err != nil {
			j.close()
			j, o = nil, nil
		}
	}()
	if err := f.apply(o); err != nil {
		return j, o, err
	}
	j.inPlace = o.InPlace
	start := time.Now()
	if j.model, err = f.open(ctx, path); err != nil {
		return j, o, err
	}
	j.compiled = time.Since(start)
	g := j.model.Graph()
	if j.feeds, err = f.readInputs(g); err != nil {
		return j, o, err
	}
	if src := j.model.Source(); src != nil { // a bundle gives its own when it is run
		for name, t := range src.Defaults {
			if _, ok := j.feeds[name]; !ok {
				j.feeds[name] = t
			}
		}
	}
	if j.binding, err = bind(g, f, j.feeds); err != nil {
		return j, o, err
	}
	j.binding.apply(g, o)
	o.Observer, o.Logger = j.observe, a.logger()
	if f.edit != nil {
		f.edit(o)
	}
	return j, o, nil
}

// compile opens and compiles the model at path. Close the job.
func (a *app) compile(ctx context.Context, path string, f *modelFlags) (j *job, err error) {
	return a.compileFor(ctx, path, f, nil)
}

// compileFor is compile with options that edit changes for the model; nil changes none.
func (a *app) compileFor(ctx context.Context, path string, f *modelFlags, edit func(*job, *carve.Options)) (j *job, err error) {
	j, o, err := a.prepare(ctx, path, f)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			j.close()
			j = nil
		}
	}()
	if edit != nil {
		edit(j, o)
	}
	p := a.progress("compile", 1)
	defer p.end()
	j.shown.Store(p)
	start := time.Now()
	j.program, err = carve.Compile(ctx, j.model, o)
	j.compiled += time.Since(start)
	if errors.Is(err, partition.ErrUnplaced) {
		err = fmt.Errorf("%w; carve inspect lists all such operators", err)
	}
	if taken := j.binding.taken(); errors.Is(err, graph.ErrShapeMismatch) && taken != "" {
		err = fmt.Errorf("%w; %s", err, taken)
	}
	return j, err
}

// observe passes progress on to what shows it.
func (j *job) observe(x carve.Progress) { j.shown.Load().observe(x) }

// running shows progress of runs, until the function that it returns is called.
func (j *job) running(a *app) (end func()) {
	p := a.progress("run", 1)
	j.shown.Store(p)
	return p.end
}

// shapes returns the concrete shape of every tensor input, for reports.
func (j *job) shapes() (map[string][]int, error) {
	out := map[string][]int{}
	for _, v := range j.model.Graph().Inputs {
		if !v.Type.IsTensor() {
			continue
		}
		shape, err := j.binding.shapeOf(v)
		if err != nil {
			return nil, err
		}
		out[v.Name] = shape
	}
	return out, nil
}

// report describes the plan for the job's shapes.
func (j *job) report(ctx context.Context) (*carve.Report, error) {
	shapes, err := j.shapes()
	if err != nil {
		return nil, err
	}
	r, err := j.program.Report(ctx, shapes)
	if err != nil {
		return nil, err
	}
	r.Dims = j.binding.report()
	return r, nil
}

// close frees program and model.
func (j *job) close() {
	if j.program != nil {
		j.program.Close()
	}
	if j.model != nil {
		j.model.Close()
	}
}

// logger returns one that prints warnings on stderr, a line each.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: plain}))
}

// plain leaves out times and stack traces.
func plain(_ []string, attr slog.Attr) slog.Attr {
	if attr.Key == slog.TimeKey || attr.Key == "stack" {
		return slog.Attr{}
	}
	if s, ok := attr.Value.Any().(error); ok {
		attr.Value = slog.StringValue(oneLine(s.Error()))
	}
	return attr
}
