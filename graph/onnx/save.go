package onnx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/pending"
)

// SaveOptions settles how a model is written. nil means the defaults.
type SaveOptions struct {
	// External is the name of a file for the data of large constants, in the model's folder; "" keeps all data in the
	// model file, which protobuf limits to 2 GiB.
	External string
	// MinExternal is the size in bytes from which constants go there; default 1024.
	MinExternal int
}

// Save writes a model to a path, and its external data beside it. Both files are complete before either takes the place of one
// that was there: a model may be saved over the files that it is mapped from, and where a disk is full both old ones stay. Where both are there
// already, path is at every moment a model with its own data, even if the process ends, as far as the file system has hard links: meanwhile the
// model may refer to External with .next1, or another number, behind it.
// What is no regular file, such as a folder or a device, is not replaced. Faults are an *Error.
//
// Constants, inputs and operators are written as Load reads them: loading the file gives the same graph. Functions stay
// inlined. Dims values of symbols, and conversions of layout, which only carve has, give ErrUnsupported.
func Save(ctx context.Context, path string, m *Model, o *SaveOptions) (err error) {
	defer func() { err = saved(err, path) }()
	steps, abort, err := prepare(ctx, path, m, o)
	defer abort()
	for i := 0; err == nil && i < len(steps); i++ {
		err = steps[i]()
	}
	return err
}

// prepare writes a model beside where it belongs. Each of the steps changes what has one of the names, abort removes what has none.
func prepare(ctx context.Context, path string, m *Model, o *SaveOptions) (steps []func() error, abort func(), err error) {
	made := &unfinishedFiles{}
	e, err := newExporter(ctx, m, o)
	if err != nil {
		return nil, made.abort, err
	}
	made.ctx = e.ctx
	pending.Sweep(path)
	if e.o.External == "" {
		file, err := made.model(e, m, path)
		if err != nil {
			return nil, made.abort, err
		}
		return []func() error{file.place}, made.abort, nil
	}
	if e.o.External == filepath.Base(path) {
		return nil, made.abort, fmt.Errorf("%w: external data in the model's own file %q", ErrUnsupported, short(e.o.External))
	}
	data, err := made.file(filepath.Join(filepath.Dir(path), e.o.External))
	if err != nil {
		return nil, made.abort, err
	}
	e.data = data.w
	file, err := made.model(e, m, path)
	if err != nil {
		return nil, made.abort, err
	}
	if err := data.finish(); err != nil {
		return nil, made.abort, err
	}
	steps = []func() error{data.place, file.place}
	if !there(path) || !there(data.path) {
		return steps, made.abort, nil
	}
	spare := made.link(data)
	if spare == "" {
		return steps, made.abort, nil
	}
	// Between the old pair and the new one stands the new model with its data by the other name, which is the same file.
	between := e.o
	between.External = filepath.Base(spare)
	if e, err = newExporter(ctx, m, &between); err != nil {
		return nil, made.abort, err
	}
	e.data = io.Discard
	first, err := made.model(e, m, path)
	if err != nil {
		return nil, made.abort, err
	}
	return append([]func() error{func() error {
		made.spare = "" // it is the model's
		return first.place()
	}}, append(steps, func() error { return os.Remove(spare) })...), made.abort, nil
}

// unfinishedFiles are those of a model.
type unfinishedFiles struct {
	ctx   context.Context
	list  []*unfinished
	spare string // another name of one of them, "" where there is none that nobody refers to
}

func (u *unfinishedFiles) abort() {
	for _, f := range u.list {
		f.abort()
	}
	if u.spare != "" {
		_ = os.Remove(u.spare)
	}
}

func (u *unfinishedFiles) file(path string) (*unfinished, error) {
	f, err := newUnfinished(u.ctx, path)
	if err == nil {
		u.list = append(u.list, f)
	}
	return f, err
}

// model writes the model's own file, and external data to where the exporter has it.
func (u *unfinishedFiles) model(e *exporter, m *Model, path string) (*unfinished, error) {
	r, err := e.model(m)
	if err != nil {
		return nil, err
	}
	f, err := u.file(path)
	if err != nil {
		return nil, err
	}
	if _, err := r.WriteTo(f.w); err != nil {
		return nil, err
	}
	return f, f.finish()
}

// link gives a finished file a second name that was free, "" where the file system has none: a writer that was killed may have left a model
// that refers to some.
func (u *unfinishedFiles) link(f *unfinished) string {
	for i := 1; i < 100; i++ {
		name := fmt.Sprintf("%s.next%d", f.path, i)
		err := os.Link(f.f.Name(), name)
		if err == nil {
			u.spare = name
			return name
		}
		if !errors.Is(err, os.ErrExist) {
			return ""
		}
	}
	return ""
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Write writes a model to w, and constants of at least o.MinExternal bytes to data where that is not nil: the content of
// the file o.External beside the model. Faults are an *Error.
func Write(ctx context.Context, w, data io.Writer, m *Model, o *SaveOptions) (err error) {
	defer func() { err = saved(err, "") }()
	e, err := newExporter(ctx, m, o)
	if err != nil {
		return err
	}
	if (data == nil) != (e.o.External == "") {
		return fmt.Errorf("%w: external data needs both a name and a writer", ErrUnsupported)
	}
	if data != nil {
		e.data = &stoppable{e.ctx, data}
	}
	r, err := e.model(m)
	if err != nil {
		return err
	}
	_, err = r.WriteTo(&stoppable{e.ctx, w})
	return err
}

func newExporter(ctx context.Context, m *Model, o *SaveOptions) (*exporter, error) {
	if m == nil || m.Graph == nil {
		return nil, fmt.Errorf("model %w", graph.ErrNil)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	e := &exporter{ctx: ctx}
	if o != nil {
		e.o = *o
	}
	if e.o.MinExternal <= 0 {
		e.o.MinExternal = 1024
	}
	if s := e.o.External; s != "" && (s != filepath.Base(s) || !filepath.IsLocal(s) || s == ".") {
		return nil, fmt.Errorf("%w: %q is no name of a file in the model's folder", ErrUnsupported, short(s))
	}
	if len(m.Outputs) == len(m.Graph.Outputs) {
		e.outputs = m.Outputs
	}
	return e, nil
}

// saved makes an *Error of err.
func saved(err error, file string) error {
	if err == nil {
		return nil
	}
	var own *Error
	if !errors.As(err, &own) {
		own = &Error{Err: err}
	}
	own.Op, own.File = "save", file
	return own
}

// unfinished is a file that takes the place of another when it is complete.
type unfinished struct {
	f    *os.File // nil when it is in its place, or removed
	w    *bufio.Writer
	path string
}

func newUnfinished(ctx context.Context, path string) (*unfinished, error) {
	if info, err := os.Stat(path); err == nil { // by links too: devices such as /dev/stdout are behind them
		if err := offheap.Regular(info); err != nil {
			return nil, fmt.Errorf("%q: %w", short(path), err)
		}
	}
	f, err := pending.Create(path)
	if err != nil {
		return nil, err
	}
	return &unfinished{f: f, w: bufio.NewWriterSize(&stoppable{ctx, f}, 1<<16), path: path}, nil
}

// stoppable writes until its context ends, which it looks at every so many bytes.
type stoppable struct {
	ctx context.Context
	w   io.Writer
}

func (s *stoppable) Write(b []byte) (n int, err error) {
	const most = 4 << 20
	for len(b) > 0 && err == nil {
		if err = s.ctx.Err(); err != nil {
			break
		}
		var k int
		k, err = s.w.Write(b[:min(len(b), most)])
		n, b = n+k, b[k:]
	}
	return n, err
}

// finish writes what is left, to the disk.
func (p *unfinished) finish() error {
	err := p.w.Flush()
	if err == nil {
		err = p.f.Sync()
	}
	return errors.Join(err, p.f.Close())
}

// place gives the finished file its name.
func (p *unfinished) place() error {
	if err := pending.Place(p.f, p.path); err != nil {
		return err
	}
	p.f = nil
	return nil
}

// abort removes the file where it is not in its place.
func (p *unfinished) abort() {
	if p.f != nil {
		_ = p.f.Close() // it may be closed
		_ = os.Remove(p.f.Name())
		p.f = nil
	}
}
