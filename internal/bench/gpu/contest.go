package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/carve-dev/carve/internal/bench/paired"
)

// ownKernels is carve on CUDA without NVIDIA's libraries of products and convolutions.
const ownKernels = "cuda, own kernels"

// contest is a network at a batch and a precision, on several sides by turns.
type contest struct {
	*run
	network   *network
	items     int
	precision string
}

// contestant is a side that has made the network ready.
type contestant struct {
	row *row
	on  *child
}

// sides are those that take part: a list of requests to processes. Rivals come last.
func (c *contest) sides(withRivals bool) (names []string, on []*child, loads []*loading) {
	add := func(name string, p *child, l loading) {
		l.Path, l.Feeds, l.Dims, l.Precision = c.network.path, c.feeds(c.items), c.network.dims(c.items), c.precision
		l.Out = filepath.Join(c.dir, "results")
		names, on, loads = append(names, name), append(on, p), append(loads, &l)
	}
	for _, b := range c.backends {
		if b != "cuda" {
			add(b, c.carves[b], loading{Backend: b, Options: map[string]string{"precision": c.precision}})
			continue
		}
		options := map[string]string{"precision": c.precision, "library": c.Driver, "nvrtc": c.NVRTC, "cublas": c.CUBLAS, "cudnn": c.CUDNN}
		maps.DeleteFunc(options, func(_, v string) bool { return v == "" })
		add("cuda", c.carves["cuda"], loading{Backend: "cuda", Options: options})
		if !withRivals && c.hasLibraries() {
			own := maps.Clone(options)
			delete(own, "cublas")
			delete(own, "cudnn")
			own["libraries"] = "off"
			add(ownKernels, c.carves[ownKernels], loading{Backend: "cuda", Options: own})
		}
	}
	if withRivals {
		for _, r := range c.rivals {
			add(r.name, r.on, loading{Mode: r.mode, Device: c.rivalDevice})
		}
	}
	return names, on, loads
}

// hold makes the network ready on all sides, and lets them take turns.
func (c *contest) hold(ctx context.Context, withRivals bool) error {
	if err := c.prepare(); err != nil {
		return err
	}
	names, on, loads := c.sides(withRivals)
	var list []*contestant
	defer func() {
		for _, p := range on {
			if p.now != nil {
				_, _ = p.ask(context.WithoutCancel(ctx), time.Minute, &request{Op: "drop"}) // what goes wrong ends the process
			}
		}
	}()
	for i, name := range names {
		x := &contestant{on: on[i], row: &row{Part: modelPart, Name: c.network.name, Side: name, Precision: c.precision, Batch: c.items}}
		if err := c.load(ctx, x, loads[i]); err != nil {
			if x.row.Fault = faultOf(err); x.row.Fault.Kind == absent {
				c.run.rivals = without(c.run.rivals, name)
			}
			c.add(x.row)
			continue
		}
		list = append(list, x)
	}
	c.turns(ctx, list)
	c.compare(list)
	for _, x := range list {
		c.add(x.row)
	}
	return nil
}

// load makes the network ready on a side, and compares its results.
func (c *contest) load(ctx context.Context, x *contestant, l *loading) error {
	if err := os.RemoveAll(l.Out); err != nil {
		return err
	}
	before := c.free(ctx)
	a, err := x.on.ask(ctx, c.patience, &request{Op: "load", Load: l})
	if err != nil {
		return err
	}
	if x.row.Ready = a.Ready; a.Ready == nil {
		return &fault{failed, "no answer to load"}
	}
	if after := c.free(ctx); before > 0 && after > 0 {
		x.row.Memory = before - after
	}
	references := c.references(c.network)
	if _, err := os.Stat(references); err != nil {
		return nil // there is a row that says why
	}
	agreed, err := agree(l.Out, references)
	if err == nil {
		x.row.Agreement = &agreed
	}
	return err
}

// free returns how many bytes of the device are free, 0 where that is not known.
func (c *contest) free(ctx context.Context) int64 {
	if c.kernels == nil {
		return 0
	}
	a, err := c.kernels.ask(ctx, time.Minute, &request{Op: "memory"})
	if err != nil {
		return 0
	}
	return a.Bytes
}

// turns lets sides run one after the other, so many times. One that fails is out.
func (c *contest) turns(ctx context.Context, list []*contestant) {
	for range c.turnCount {
		for _, x := range list {
			if x.row.Fault != nil {
				continue
			}
			a, err := x.on.ask(ctx, c.patience, &request{Op: "turn", Seconds: c.turnSeconds})
			if err == nil && len(a.RunMS) == 0 {
				err = errors.New("no answer to turn")
			}
			if f := faultOf(err); f != nil {
				if f.Kind == left && len(x.row.RunMS) > 0 {
					return // what was measured stands
				}
				x.row.Fault = f
				continue
			}
			x.row.RunMS = append(x.row.RunMS, paired.Median(a.RunMS))
		}
	}
}

// compare sets the ratios of carve's sides to the others.
func (c *contest) compare(list []*contestant) {
	for _, x := range list {
		if !isCarve(x.row.Side) || x.row.Fault != nil {
			continue
		}
		x.row.Ratio = map[string]paired.Ratio{}
		for _, y := range list {
			if !isCarve(y.row.Side) && y.row.Fault == nil {
				n := min(len(x.row.RunMS), len(y.row.RunMS))
				x.row.Ratio[y.row.Side] = paired.Of(x.row.RunMS[:n], y.row.RunMS[:n])
			}
		}
	}
}

// feeds is the folder of a batch's inputs.
func (c *contest) feeds(items int) string {
	return filepath.Join(c.keep, "inputs", fmt.Sprintf("%s-%d", c.network.name, items))
}

// references is the folder of a network's results in float64.
func (r *run) references(n *network) string { return filepath.Join(r.keep, "float64", n.name) }

// prepare writes the inputs, unless they are there.
func (c *contest) prepare() error { return c.writeInputs(c.items) }

func (c *contest) writeInputs(items int) error {
	if c.network.symbol == "" && items > 1 {
		return &fault{unsupported, "the model has no open number of items"}
	}
	folder := c.feeds(items)
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	feeds, err := c.network.batched(items)
	if err != nil {
		return err
	}
	return write(folder, feeds)
}

// reference has the results in float64 computed, unless they are there.
func (c *contest) reference(ctx context.Context) error {
	folder := c.references(c.network)
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	items := 2
	if c.network.symbol == "" {
		items = 1
	}
	if err := c.writeInputs(items); err != nil {
		return err
	}
	part := folder + ".part"
	_, err := c.host.ask(ctx, c.patience, &request{Op: "reference", Load: &loading{Path: c.network.path, Feeds: c.feeds(items), Out: part, Dims: c.network.dims(items)}})
	if err != nil {
		return err
	}
	return os.Rename(part, folder)
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
