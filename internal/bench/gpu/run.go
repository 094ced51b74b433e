package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve/internal/zootest"
)

// config is what the command is told.
type config struct {
	found
	Driver      string
	python      string
	rivalDevice string
	compileMode string
	zoo         string
	models      []string
	backends    []string
	precisions  []string
	batches     []int
	parts       []string
	sizes       string
	tiles       int
	seconds     float64
	turnCount   int
	turnSeconds float64
	patience    time.Duration
	keep        string
	out         string
}

// run is one of the command.
type run struct {
	config
	dir     string
	kernels *child            // nil without CUDA
	host    *child            // computes references
	carves  map[string]*child // by side
	rivals  []rival
	report  report
	print   func(string)
}

// report is what is written as JSON.
type report struct {
	Began    time.Time         `json:"began"`
	Seconds  float64           `json:"seconds"`
	Facts    *facts            `json:"facts,omitempty"`
	Clocks   map[string]string `json:"clocks,omitempty"` // as the system's tool says, before and after
	Ceilings ceilings          `json:"ceilings"`
	Rows     []*row            `json:"rows"`
	Limits   []judged          `json:"limits"`
	Left     []string          `json:"left,omitempty"` // for want of time
}

// newRun starts nothing yet: processes begin when they are asked for something.
func newRun(c config, dir string) (*run, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &run{config: c, dir: dir, carves: map[string]*child{}, print: func(s string) { fmt.Println(s) }}
	r.keep = cmp.Or(c.keep, dir)
	r.report = report{Began: time.Now(), Ceilings: ceilings{}, Clocks: map[string]string{}}
	serving := func(name, side string) *child {
		text, err := json.Marshal(settings{Side: side, Driver: c.Driver, NVRTC: c.NVRTC, CUBLAS: c.CUBLAS, CUDNN: c.CUDNN, Sizes: c.sizes, Tiles: c.tiles, Seconds: c.seconds})
		return &child{name: name, command: func() *exec.Cmd {
			cmd := exec.Command(self, "-serve", string(text))
			cmd.Env = c.environment()
			if err != nil {
				cmd.Err = err
			}
			return cmd
		}}
	}
	if slices.Contains(c.backends, "cuda") {
		r.kernels = serving("kernels", "kernels")
		r.carves[ownKernels] = serving(ownKernels, "models")
	}
	for _, b := range c.backends {
		r.carves[b] = serving(b, "models")
	}
	r.host = serving("references", "models")
	if slices.Contains(c.parts, rivalPart) {
		r.rivals, err = findRivals(c.python, c.compileMode, dir, r.keep)
	}
	return r, err
}

// close ends all processes.
func (r *run) close() {
	list := []*child{r.kernels, r.host}
	for _, name := range sortedKeys(r.carves) {
		list = append(list, r.carves[name])
	}
	for _, x := range r.rivals {
		list = append(list, x.on)
	}
	for _, p := range list {
		if p != nil {
			p.quit()
		}
	}
}

// add adds a row, prints it and writes the report, so that it is there whatever ends the command.
func (r *run) add(x *row) {
	r.report.Rows = append(r.report.Rows, x)
	if x.Part != modelPart && x.Times != nil {
		r.report.Ceilings = ceilingsOf(r.report.Rows)
		r.report.Ceilings.share(x)
	}
	r.print(x.String())
	if err := r.write(); err != nil {
		r.print(err.Error())
	}
}

// write judges what there is, and writes it.
func (r *run) write() error {
	r.report.Seconds = time.Since(r.report.Began).Seconds()
	for _, x := range r.report.Rows { // ceilings may have risen since
		r.report.Ceilings.share(x)
	}
	r.report.Limits = judge(r.report.Rows)
	if r.out == "" {
		return nil
	}
	b, err := json.MarshalIndent(&r.report, "", " ")
	if err != nil {
		return err
	}
	part := r.out + ".part"
	if err := os.WriteFile(part, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(part, r.out)
}

// hasLibraries reports whether there is a library of products or convolutions.
func (r *run) hasLibraries() bool {
	if r.report.Facts == nil {
		return false
	}
	for _, name := range []string{blasName, dnnName} {
		if v := r.report.Facts.Libraries[name]; v != "" && !strings.HasPrefix(v, "not used") {
			return true
		}
	}
	return false
}

// facts asks what the device is.
func (r *run) facts(ctx context.Context) error {
	if r.kernels == nil {
		return nil
	}
	a, err := r.kernels.ask(ctx, r.patience, &request{Op: "facts"})
	if err != nil {
		return err
	}
	r.report.Facts = a.Facts
	f := a.Facts
	r.print(fmt.Sprintf("%s, capability %d.%d, %d processors, %d MiB, driver of CUDA %d.%d", f.Name, f.Capability/10, f.Capability%10, f.Processors, f.Memory>>20,
		f.Driver/1000, f.Driver%1000/10))
	for _, name := range sortedKeys(f.Libraries) {
		r.print(name + " " + f.Libraries[name])
	}
	return nil
}

// clocks notes what the system's tool says of the device, where there is one.
func (r *run) clocks(when string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw", "--format=csv,noheader").Output()
	if err == nil {
		r.report.Clocks[when] = strings.TrimSpace(string(out))
		r.print("clocks " + when + ": " + r.report.Clocks[when])
	}
}

// networks finds the models. One that is not there has a row that says so.
func (r *run) networks(ctx context.Context) (list []*network) {
	zoo := r.zoo
	if zoo == "" {
		zoo, _ = zootest.Shared("models") // a model that is no file is not found then
	}
	for _, name := range r.models {
		n, err := openNetwork(ctx, name, zoo)
		if err != nil {
			f := faultOf(err)
			if os.IsNotExist(err) {
				f.Kind = absent
			}
			r.add(&row{Part: modelPart, Name: filepath.Base(name), Fault: f})
			continue
		}
		list = append(list, n)
	}
	return list
}
