// Package score is a transform of Apache Beam that runs a model on each record of a PCollection, many in a run.
//
// A process has one Program for a model, however many workers it has. Records are collected while a bundle lasts, and what is left is
// run when it ends, so that results belong to the bundle: where a runner repeats a bundle, or a pipeline is started again, each record
// has one result. Nothing depends on a worker's end, which runners need not tell of.
package score

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

// Record is what a model is asked: one row of its input.
type Record struct {
	ID     string
	Values []float32
}

// Result is what a model answers: one row of its output.
type Result struct {
	ID     string
	Values []float32
}

// Failure is a record that the model does not run on.
type Failure struct {
	ID    string
	Error string
}

// Options are the settings of Score. Workers get them as JSON.
type Options struct {
	Model  string // path of a model with one float32 input, in a file system that the pipeline has registered
	Output string // name of a float32 output; "" means the first
	Batch  int    // most records in a run; 0 means 64
	// Retries is how many more times a run is tried that fails, before its records are run one by one, which are tried as often; 0
	// means 1.
	Retries int
}

func init() {
	register.DoFn4x1[context.Context, Record, func(Result), func(Failure), error](&scoreFn{})
	register.Emitter1[Result]()
	register.Emitter1[Failure]()
	beam.RegisterType(reflect.TypeFor[Record]())
	beam.RegisterType(reflect.TypeFor[Result]())
	beam.RegisterType(reflect.TypeFor[Failure]())
}

// Score runs a model on each Record of a PCollection in the global window. It returns a PCollection of Results and one of Failures:
// each record is in one of them. A fault of the model, or of memory, fails the bundle.
func Score(s beam.Scope, o Options, records beam.PCollection) (results, failures beam.PCollection) {
	if o.Batch <= 0 {
		o.Batch = 64
	}
	if o.Retries <= 0 {
		o.Retries = 1
	}
	return beam.ParDo2(s.Scope("carve.Score"), &scoreFn{Options: o}, records)
}

// scoreFn is the DoFn of Score.
type scoreFn struct {
	Options Options

	model   *shared
	records []Record
	scored  beam.Counter
	failed  beam.Counter
	retried beam.Counter
	size    beam.Distribution
}

// Setup opens the model, once in a process.
func (f *scoreFn) Setup(ctx context.Context) (err error) {
	f.scored, f.failed = beam.NewCounter("carve", "scored"), beam.NewCounter("carve", "failed")
	f.retried, f.size = beam.NewCounter("carve", "retried"), beam.NewDistribution("carve", "batch_size")
	f.model, err = open(ctx, f.Options)
	return err
}

// StartBundle forgets what a bundle that failed has left.
func (f *scoreFn) StartBundle(context.Context, func(Result), func(Failure)) error {
	f.records = f.records[:0]
	return nil
}

// ProcessElement collects a record, and runs those that it has when they fill a batch.
func (f *scoreFn) ProcessElement(ctx context.Context, r Record, emit func(Result), fail func(Failure)) error {
	if len(r.Values) != f.model.width {
		f.failed.Inc(ctx, 1)
		fail(Failure{r.ID, fmt.Sprintf("%d values, the model takes %d", len(r.Values), f.model.width)})
		return nil
	}
	f.records = append(f.records, r)
	if len(f.records) < f.Options.Batch {
		return nil
	}
	return f.flush(ctx, emit, fail)
}

// FinishBundle runs what is left.
func (f *scoreFn) FinishBundle(ctx context.Context, emit func(Result), fail func(Failure)) error {
	return f.flush(ctx, emit, fail)
}

// flush runs the records that were collected: together, again where that fails, and then one by one.
func (f *scoreFn) flush(ctx context.Context, emit func(Result), fail func(Failure)) error {
	list := f.records
	f.records = f.records[:0]
	if len(list) == 0 {
		return nil
	}
	f.size.Update(ctx, int64(len(list)))
	rows, err := f.try(ctx, list)
	if err == nil {
		f.scored.Inc(ctx, int64(len(list)))
		for i, r := range list {
			emit(Result{r.ID, rows[i]})
		}
		return nil
	}
	if !retries(err) {
		return err
	}
	for _, r := range list {
		rows, err := f.try(ctx, []Record{r})
		switch {
		case err == nil:
			f.scored.Inc(ctx, 1)
			emit(Result{r.ID, rows[0]})
		case retries(err):
			f.failed.Inc(ctx, 1)
			fail(Failure{r.ID, err.Error()})
		default:
			return err
		}
	}
	return nil
}

// try runs records, and where that fails again.
func (f *scoreFn) try(ctx context.Context, list []Record) ([][]float32, error) {
	rows, err := f.model.run(ctx, list)
	for n := 0; err != nil && retries(err) && n < f.Options.Retries; n++ {
		f.retried.Inc(ctx, 1)
		rows, err = f.model.run(ctx, list)
	}
	return rows, err
}

// retries reports whether an error may be one of a run, or of its records, and not of the process.
func retries(err error) bool { return errors.Is(err, carve.ErrRun) || errors.Is(err, carve.ErrInput) }

// shared is a model of this process.
type shared struct {
	runner carve.Runner
	input  string
	output string
	shape  []int // of a row
	width  int   // numbers of a row
}

var (
	models  sync.Map                                         // of functions that return *shared, by Options
	wrapped = func(r carve.Runner) carve.Runner { return r } // what specs put around a runner
)

// open returns the model of options, which is opened once. A model that does not open is tried again by the next worker.
func open(ctx context.Context, o Options) (*shared, error) {
	once, _ := models.LoadOrStore(o, sync.OnceValues(func() (*shared, error) { return load(context.WithoutCancel(ctx), o) }))
	m, err := once.(func() (*shared, error))()
	if err != nil {
		models.Delete(o)
	}
	return m, err
}

// load reads and compiles a model, with a session of one thread for each core: workers run at one time.
func load(ctx context.Context, o Options) (*shared, error) {
	fs, err := filesystem.New(ctx, o.Model)
	if err != nil {
		return nil, err
	}
	defer fs.Close()
	data, err := filesystem.Read(ctx, fs, o.Model)
	if err != nil {
		return nil, err
	}
	model, err := carve.Parse(ctx, data)
	if err != nil {
		return nil, err
	}
	m, err := compile(ctx, model, o)
	if err != nil {
		_ = model.Close() // the next worker tries again
	}
	return m, err
}

// compile makes what runs a model.
func compile(ctx context.Context, model *carve.Model, o Options) (*shared, error) {
	program, err := carve.Compile(ctx, model, &carve.Options{Profile: carve.ProfileThroughput})
	if err != nil {
		return nil, err
	}
	m, err := describe(program, o)
	if err == nil {
		var batcher *carve.Batcher
		if batcher, err = carve.NewBatcher(program, &carve.BatchOptions{MaxBatch: o.Batch}); err == nil {
			m.runner = wrapped(batcher)
			return m, nil
		}
	}
	_ = program.Close()
	return nil, err
}

// describe returns what a program is to be asked, and for what.
func describe(program *carve.Program, o Options) (*shared, error) {
	m := &shared{width: 1, output: o.Output}
	for _, in := range program.Inputs() {
		if in.Optional {
			continue
		}
		if m.input != "" || in.Type.DType != tensor.Float32 || len(in.Type.Shape) == 0 {
			return nil, fmt.Errorf("%s: input %q is %v: one input of rows of float32 is wanted", o.Model, in.Name, in.Type)
		}
		m.input = in.Name
		for _, d := range in.Type.Shape[1:] {
			n, ok := d.Const()
			if !ok {
				return nil, fmt.Errorf("%s: input %q is %v: rows of one size are wanted", o.Model, in.Name, in.Type)
			}
			m.shape, m.width = append(m.shape, int(n)), m.width*int(n)
		}
	}
	names := []string{}
	for _, out := range program.Outputs() {
		names = append(names, out.Name)
	}
	switch {
	case m.input == "" || len(names) == 0:
		return nil, fmt.Errorf("%s: it has no input or no output", o.Model)
	case m.output == "":
		m.output = names[0]
	case !slices.Contains(names, m.output):
		return nil, fmt.Errorf("%s: it has no output %q", o.Model, m.output)
	}
	return m, nil
}

// run returns the model's answers to records.
func (m *shared) run(ctx context.Context, list []Record) ([][]float32, error) {
	values := make([]float32, 0, len(list)*m.width)
	for _, r := range list {
		values = append(values, r.Values...)
	}
	out, err := m.runner.Run(ctx, map[string]tensor.Value{m.input: tensor.From(values, append([]int{len(list)}, m.shape...)...)})
	if err != nil {
		return nil, err
	}
	t, ok := out[m.output].(*tensor.Tensor)
	if !ok || t.DType != tensor.Float32 || len(t.Shape) == 0 || t.Shape[0] != len(list) {
		return nil, fmt.Errorf("output %q is %v: a row of float32 for each record is wanted", m.output, out[m.output])
	}
	all, rows := tensor.Of[float32](t), make([][]float32, len(list))
	width := len(all) / len(list)
	for i := range rows {
		rows[i] = slices.Clone(all[i*width : (i+1)*width])
	}
	return rows, nil
}
