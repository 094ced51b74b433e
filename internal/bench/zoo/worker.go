package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
)

// sample is what one process measured.
type sample struct {
	Version  string  `json:"version"`
	CreateMS float64 `json:"create_ms"`
	FirstMS  float64 `json:"first_ms"` // of the first run alone
	PeakMiB  float64 `json:"peak_mib"`
	Turns    []turn  `json:"-"`
}

// turn is what a process measured in a turn.
type turn struct {
	RunMS []float64 `json:"run_ms"`
	CPUMS []float64 `json:"cpu_ms"` // of the processor, all threads together
}

// process is one that measures a model. It says what it took to begin, and then for every line that it reads, what its runs took.
type process struct {
	began  sample
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr bytes.Buffer
}

// start starts a process, and waits until it has made the model ready.
func start(name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...)}
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	return p, p.answer(&p.began)
}

// answer reads what the process says; one that does not is stopped.
func (p *process) answer(to any) error {
	err := p.out.Decode(to)
	if err != nil {
		p.stop()
		return fmt.Errorf("%s: %w: %s", filepath.Base(p.cmd.Path), err, p.stderr.String())
	}
	return nil
}

// settle is how long a turn waits until threads of the others have stopped to look for work: ONNX Runtime's do so for 60 ms on an AMD EPYC of Zen 2.
const settle = 100 * time.Millisecond

// turn has the process run the model for a while.
func (p *process) turn(s *sample) error {
	time.Sleep(settle)
	if _, err := fmt.Fprintln(p.in); err != nil {
		return err
	}
	var t turn
	s.Turns = append(s.Turns, t)
	return p.answer(&s.Turns[len(s.Turns)-1])
}

// stop ends the process.
func (p *process) stop() {
	_ = p.in.Close()
	_ = p.cmd.Wait() // what went wrong has been said
}

// work is the process that measures carve: it loads, compiles and specialises a model, and runs it whenever it is its turn.
func work(path, folder, backends string, threads, turns int, seconds float64) error {
	feeds, shapes, err := readFeeds(folder)
	if err != nil {
		return err
	}
	list, err := available(backends)
	if err != nil {
		return err
	}
	ctx := context.Background()
	start := time.Now()
	m, err := carve.Open(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: list, Threads: threads})
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err := p.Report(ctx, shapes); err != nil { // makes the first specialisation
		return err
	}
	s := sample{CreateMS: ms(time.Since(start))}
	for i := range 3 {
		start := time.Now()
		if _, err := p.Run(ctx, feeds); err != nil {
			return err
		}
		if i == 0 {
			s.FirstMS = ms(time.Since(start))
		}
	}
	run := func() error {
		_, err := p.Run(ctx, feeds)
		return err
	}
	if *into {
		if run, err = runInto(ctx, p, feeds); err != nil {
			return err
		}
	}
	s.PeakMiB = clock.PeakMiB()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(s); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		t, err := runs(run, max(20/turns, 1), seconds/float64(turns))
		if err != nil {
			return err
		}
		if err := out.Encode(t); err != nil {
			return err
		}
	}
	return nil
}

// runs runs a program once to warm up, and then at least so often and for so many seconds, but no more than four times as long.
func runs(run func() error, least int, seconds float64) (t turn, err error) {
	if err := run(); err != nil {
		return t, err
	}
	begin := time.Now()
	for len(t.RunMS) < least || time.Since(begin).Seconds() < seconds {
		start, cpu := time.Now(), clock.Process()
		if err := run(); err != nil {
			return t, err
		}
		t.RunMS, t.CPUMS = append(t.RunMS, ms(time.Since(start))), append(t.CPUMS, ms(clock.Process()-cpu))
		if len(t.RunMS) >= min(least, 5) && time.Since(begin).Seconds() > 4*seconds {
			break
		}
	}
	return t, nil
}

// runInto returns what runs a program into results that are allocated once.
func runInto(ctx context.Context, p *carve.Program, feeds map[string]tensor.Value) (func() error, error) {
	results, err := p.Run(ctx, feeds)
	if err != nil {
		return nil, err
	}
	list := func(ports []carve.Port, of map[string]tensor.Value) ([]*tensor.Tensor, error) {
		var out []*tensor.Tensor
		for _, port := range ports {
			t, ok := of[port.Name].(*tensor.Tensor)
			if !ok {
				return nil, fmt.Errorf("%s is no tensor", port.Name)
			}
			out = append(out, t)
		}
		return out, nil
	}
	inputs, err := list(p.Inputs(), feeds)
	if err != nil {
		return nil, err
	}
	outputs, err := list(p.Outputs(), results)
	return func() error { return p.RunInto(ctx, inputs, outputs) }, err
}

// readFeeds reads the inputs of a folder, and their shapes.
func readFeeds(folder string) (map[string]tensor.Value, map[string][]int, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.npy"))
	if err != nil {
		return nil, nil, err
	}
	feeds, shapes := map[string]tensor.Value{}, map[string][]int{}
	for _, f := range files {
		t, err := tensor.ReadNPYFile(f)
		if err != nil {
			return nil, nil, err
		}
		name := strings.TrimSuffix(filepath.Base(f), ".npy")
		feeds[name], shapes[name] = t, t.Shape
	}
	return feeds, shapes, nil
}

// available returns the configurations of backends, all of which can be opened: an unavailable one would leave its place to others.
func available(backends string) (list []backend.Config, err error) {
	for _, name := range strings.Split(backends, ",") {
		c := backend.Config{Name: name}
		b, err := backend.Open(c)
		if err != nil {
			return nil, err
		}
		if err := b.Close(); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
