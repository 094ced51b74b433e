package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// models is the process that runs whole networks on carve, one at a time.
type models struct {
	run   func() error
	after []func() // give what is loaded back, the last first
}

// answer answers a request.
func (m *models) answer(ctx context.Context, r *request) (*answer, error) {
	switch {
	case r.Op == "load" && r.Load != nil:
		m.drop()
		ready, err := m.load(ctx, r.Load)
		if err != nil {
			m.drop()
		}
		return &answer{Ready: ready}, err
	case r.Op == "reference" && r.Load != nil:
		return &answer{}, reference(ctx, r.Load)
	case r.Op == "turn" && m.run != nil:
		list, err := turn(m.run, r.Seconds)
		return &answer{RunMS: list}, err
	case r.Op == "drop":
		m.drop()
		return &answer{}, nil
	}
	return nil, fmt.Errorf("no request %q now", r.Op)
}

// drop gives what is loaded back.
func (m *models) drop() {
	for _, f := range slices.Backward(m.after) {
		f()
	}
	m.run, m.after = nil, nil
}

func (m *models) later(f func()) { m.after = append(m.after, f) }

// turn runs once to warm up, and then for so many seconds, but three times at least.
func turn(run func() error, seconds float64) (list []float64, err error) {
	if err := run(); err != nil {
		return nil, err
	}
	for begin := time.Now(); len(list) < 3 || time.Since(begin).Seconds() < seconds; {
		start := time.Now()
		if err := run(); err != nil {
			return nil, err
		}
		list = append(list, milliseconds(time.Since(start)))
	}
	return list, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// load makes a network ready on a backend, writes its results, and sees what runs do.
func (m *models) load(ctx context.Context, l *loading) (*ready, error) {
	feeds, err := readFeeds(l.Feeds)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	b, err := backend.Open(backend.Config{Name: l.Backend, Options: l.Options})
	if err != nil {
		return nil, err
	}
	m.later(func() { _ = b.Close() }) // there is nobody to tell, here and below
	model, err := carve.Open(ctx, l.Path)
	if err != nil {
		return nil, err
	}
	m.later(func() { _ = model.Close() })
	p, err := carve.Compile(ctx, model, &carve.Options{
		Backends: []backend.Config{{Name: l.Backend}, {Name: "cpu"}}, Open: map[string]backend.Backend{l.Backend: b}, Dims: l.Dims, Placement: carve.Priority,
	})
	if err != nil {
		return nil, err
	}
	m.later(func() { _ = p.Close() })
	r, err := describe(ctx, p, l.Backend, feeds)
	if err != nil {
		return nil, err
	}
	r.Version, r.CreateMS = b.Info().Version, milliseconds(time.Since(start))
	s, err := p.NewSession()
	if err != nil {
		return nil, err
	}
	m.later(func() { _ = s.Close() })
	calls := func() map[string]int { return nil }
	if c, ok := b.(interface{ Calls() map[string]int }); ok {
		calls = c.Calls
	}
	return r, m.warm(ctx, p, s, b, feeds, l, r, calls)
}

// warm runs on operands of the host's, writes the results, and runs on operands of the device's, if that goes, as turns will.
func (m *models) warm(ctx context.Context, p *carve.Program, s *carve.Session, b backend.Backend, feeds map[string]tensor.Value, l *loading, r *ready,
	calls func() map[string]int,
) error {
	start := time.Now()
	out, err := s.Run(ctx, feeds)
	if err != nil {
		return err
	}
	r.FirstMS = milliseconds(time.Since(start))
	if err := write(l.Out, out); err != nil {
		return err
	}
	onHost := func() error {
		_, err := s.Run(ctx, feeds)
		return err
	}
	if r.HostCall, r.HostMS, err = settled(onHost, calls); err != nil {
		return err
	}
	m.run = onHost
	if b.Devices()[0] == device.Host {
		return nil
	}
	onDevice, err := m.onDevice(ctx, p, s, b, feeds, out)
	if err == nil {
		r.Calls, _, err = settled(onDevice, calls)
	}
	if err != nil {
		r.Note = "operands stay on the host: " + err.Error()
		return nil
	}
	m.run = onDevice
	return nil
}

// settled runs until graphs are captured, and returns what a run calls, and how long one takes.
func settled(run func() error, calls func() map[string]int) (made map[string]int, ms float64, err error) {
	for range 3 {
		if err := run(); err != nil {
			return nil, 0, err
		}
	}
	before, start := calls(), time.Now()
	if err := run(); err != nil {
		return nil, 0, err
	}
	ms, made = milliseconds(time.Since(start)), map[string]int{}
	for name, n := range calls() {
		if n -= before[name]; n > 0 {
			made[name] = n
		}
	}
	return made, ms, nil
}

// onDevice returns a run whose inputs and results lie on the device, in the formats that its groups read and make.
func (m *models) onDevice(ctx context.Context, p *carve.Program, s *carve.Session, b backend.Backend, feeds, results map[string]tensor.Value) (func() error, error) {
	report, err := p.Report(ctx, nil)
	if err != nil {
		return nil, err
	}
	in, err := m.place(ctx, b, p.Inputs(), feeds, func(name string, rank int) string {
		for _, c := range report.Conversions {
			if c.Value == name && !c.Constant && c.From == graph.HostFormat.Name(rank) {
				return c.To
			}
		}
		return ""
	}, true)
	if err != nil {
		return nil, err
	}
	out, err := m.place(ctx, b, p.Outputs(), results, func(name string, rank int) string {
		for _, c := range report.Conversions {
			if c.Value == name && c.To == graph.HostFormat.Name(rank) {
				return c.From
			}
		}
		return ""
	}, false)
	if err != nil {
		return nil, err
	}
	return func() error {
		e, err := s.Enqueue(ctx, in, out)
		if err != nil || e == nil {
			return err
		}
		defer e.Close()
		return e.Wait(ctx)
	}, nil
}

// place allocates tensors on the device, in the formats of these names or else in row-major order, and fills them.
func (m *models) place(ctx context.Context, b backend.Backend, ports []carve.Port, from map[string]tensor.Value, format func(name string, rank int) string, fill bool) ([]*carve.Formatted, error) {
	dev := b.Devices()[0]
	var list []*carve.Formatted
	for _, port := range ports {
		t, ok := from[port.Name].(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("%s is no tensor", port.Name)
		}
		bytes, layout := int64(t.NumBytes()), graph.RowMajor
		move := func(_ context.Context, dst, src *tensor.Tensor, _ convert.Exec) error {
			return dev.CopyTo(ctx, nil, device.MemoryOf(dst), 0, src.Bytes())
		}
		if name := format(port.Name, t.Rank()); name != "" {
			c, err := converter(b, name, t)
			if err != nil {
				return nil, err
			}
			layout = c.To.Layout
			if move, err = c.Prepare(t.DType, t.Shape, nil); err != nil {
				return nil, err
			}
			if bytes, err = size(c, t); err != nil {
				return nil, err
			}
		}
		block, err := dev.Alloc(max(bytes, 1))
		if err != nil {
			return nil, err
		}
		m.later(func() { dev.Free(block) })
		there := &tensor.Tensor{DType: t.DType, Shape: t.Shape, Device: dev.ID(), Handle: block.Handle}
		if fill {
			if err := move(ctx, there, t, convert.Exec{}); err != nil {
				return nil, err
			}
		}
		list = append(list, &carve.Formatted{Tensor: there, Layout: layout})
	}
	return list, nil
}

// converter returns the one of a backend that takes a tensor of the host's to a format.
func converter(b backend.Backend, format string, t *tensor.Tensor) (*convert.Converter, error) {
	for _, c := range b.Converters() {
		if c.From == graph.HostFormat && c.To.Name(t.Rank()) == format && (c.Supports == nil || c.Supports(t.DType, t.Rank())) {
			return &c, nil
		}
	}
	return nil, fmt.Errorf("nothing takes a tensor of the host's to %s", format)
}

// size returns the bytes of a tensor in the format that a converter makes.
func size(c *convert.Converter, t *tensor.Tensor) (int64, error) {
	if c.To.Layout.IsOpaque() {
		return c.Size(c.To, t.DType, t.Shape)
	}
	return graph.PhysicalSize(c.To, t.DType, t.Shape)
}

// describe says how a network is carved.
func describe(ctx context.Context, p *carve.Program, name string, feeds map[string]tensor.Value) (*ready, error) {
	shapes := map[string][]int{}
	for k, v := range feeds {
		shapes[k] = v.(*tensor.Tensor).Shape
	}
	report, err := p.Report(ctx, shapes)
	if err != nil {
		return nil, err
	}
	r := &ready{Groups: len(report.Groups)}
	for _, g := range report.Groups {
		if g.Backend != name {
			r.Outside += len(g.Nodes)
		}
		for _, x := range g.Libraries {
			if !slices.Contains(r.Used, x) {
				r.Used = append(r.Used, x)
			}
		}
	}
	for _, d := range report.Devices {
		r.Arena += d.Arena
	}
	return r, nil
}

// write writes results to a folder.
func write(folder string, values map[string]tensor.Value) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for name, v := range values {
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("%s is no tensor", name)
		}
		f, err := os.Create(filepath.Join(folder, fileOf(name)))
		if err != nil {
			return err
		}
		if err := errors.Join(tensor.WriteNPY(f, t), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// fileOf is the file of a value's name.
func fileOf(name string) string { return strings.ReplaceAll(name, "/", "_") + ".npy" }

// readFeeds reads the tensors of a folder, by name.
func readFeeds(folder string) (map[string]tensor.Value, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.npy"))
	if err != nil {
		return nil, err
	}
	feeds := map[string]tensor.Value{}
	for _, f := range files {
		t, err := tensor.ReadNPYFile(f)
		if err != nil {
			return nil, err
		}
		feeds[strings.TrimSuffix(filepath.Base(f), ".npy")] = t
	}
	return feeds, nil
}
