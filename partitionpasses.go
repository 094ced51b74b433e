package carve

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/constants"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/internal/pool"
	"github.com/carve-dev/carve/internal/twin"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// The passes that carve the graph, and those over the carved one. They are run in rounds: whenever one of them has found that
// a backend may not have some nodes, the next round begins with the simplified graph and a longer table of bans.

// blocks calls fn for the main graph and every region that the host scheduler runs, inner ones first.
func (c *compilation) blocks(fn func(g *graph.Graph) error) error {
	return eachBlock(c.g, fn)
}

func eachBlock(g *graph.Graph, fn func(g *graph.Graph) error) error {
	for n := range g.Nodes() {
		if !partition.HostScheduled(n) {
			continue // whoever runs the node runs its regions
		}
		for _, r := range n.Regions {
			if err := eachBlock(r.Graph, fn); err != nil {
				return err
			}
		}
	}
	return fn(g)
}

// beginRound makes the state of each block's partition.
func (c *compilation) beginRound() error {
	c.states, c.results = nil, map[*graph.Graph]*partition.Result{}
	chooser, err := c.choose()
	if err != nil {
		return err
	}
	o := partition.Options{
		Backends: c.backends, Properties: c.o.Properties, Disabled: c.o.DisabledProperties, Bans: c.bans, Registry: c.registry, Isolated: c.o.Isolated,
		MinNodes: c.o.MinNodes, Disconnected: c.o.Disconnected, Logger: c.o.Logger, Threads: c.o.Threads, Sizes: c.o.bounded(),
	}
	if oracle := c.waitsForRanks(); oracle != nil {
		c.o.Logger.InfoContext(c.ctx, "inputs have unknown ranks: the model is compiled once more for those that a run finds", "backend", oracle.Info().Name)
		o.Backends, o.Whole = []backend.Backend{oracle}, true
	}
	scopes := map[*graph.Graph]int{} // the same in all rounds, whatever is claimed whole
	_ = c.blocks(func(g *graph.Graph) error {
		scopes[g] = len(scopes)
		return nil
	})
	blocks := map[*graph.Graph]*partition.State{}
	o.Blocks = func(g *graph.Graph) *partition.State { return blocks[g] }
	o.Chooser = c.planned(0, chooser)
	claimWhole(c.g, scopes, &o)
	return c.blocks(func(g *graph.Graph) error {
		own := o
		own.Chooser = c.planned(len(c.states), chooser)
		s := partition.NewState(g, &own, scopes[g])
		c.states, blocks[g] = append(c.states, s), s
		c.results[g] = s.Result()
		return nil
	})
}

// claimWhole has backends claim control flow, from the outside in.
func claimWhole(g *graph.Graph, scopes map[*graph.Graph]int, o *partition.Options) {
	partition.ClaimWhole(g, scopes[g], o)
	for n := range g.Nodes() {
		if partition.HostScheduled(n) {
			for _, r := range n.Regions {
				claimWhole(r.Graph, scopes, o)
			}
		}
	}
}

// countIsolated partitions a copy of the simplified graph, each operator by itself, as far as conversions are known, and notes
// what these convert. Groups are not extracted, and what properties finish is left out. Where that cannot be done the count is
// missing, and the error says why.
func (c *compilation) countIsolated(simplified *graph.Graph) error {
	if !c.o.CountIsolated {
		return nil
	}
	x := &compilation{ctx: c.ctx, model: c.model, o: c.o, backends: c.backends, registry: c.registry, bans: partition.NewBans(c.o.Pins)}
	if x.o.Placement == Measured { // of which nothing is known there
		x.o.Placement = Modelled
	}
	x.o.Plan, x.o.Isolated, x.o.Dump, x.o.DumpTo, x.o.Observer = nil, true, nil, nil, func(Progress) {}
	first := slices.IndexFunc(passes, func(p pass) bool { return p.round })
	last := slices.IndexFunc(passes, func(p pass) bool { return p.name == "insert-conversions" })
	if err := x.rounds(simplified, passes[first:last+1]); err != nil {
		return err
	}
	list := []partition.Conversion{}
	for _, s := range x.states {
		some, err := s.Conversions()
		if err != nil {
			return err
		}
		list = append(list, some...)
	}
	c.alone = list
	return nil
}

// stage makes a pass of a stage of package partition: it runs for every block.
func stage(run func(*partition.State, context.Context) error) func(*compilation) error {
	return func(c *compilation) error {
		for _, s := range c.states {
			if err := run(s, c.ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkStates verifies what the stages know.
func checkStates(c *compilation) error {
	for _, s := range c.states {
		if err := s.Verify(); err != nil {
			return err
		}
	}
	return nil
}

// checkCarved verifies that the graph is a sound partition.
func checkCarved(c *compilation) error { return c.blocks(partition.Verify) }

// checkHops verifies that there is a converter for every conversion between groups.
func checkHops(c *compilation) error {
	return c.blocks(func(g *graph.Graph) error {
		for n := range g.Nodes() {
			if n.IsCarve(graph.OpConvert) && c.hops[g][n] == nil {
				return fmt.Errorf("%w: %v is no single hop", partition.ErrPlan, n)
			}
		}
		return nil
	})
}

// checkExecutables verifies that every group has been compiled, or will be in another round.
func checkExecutables(c *compilation) error {
	for _, s := range c.states {
		for _, gr := range s.Result().Groups {
			if c.exes[gr.Node] == nil && c.bans.Len() == c.banned {
				return fmt.Errorf("%w: %v has no executable", partition.ErrPlan, gr.Node)
			}
		}
	}
	return nil
}

// dumpStates writes what the stages know.
func dumpStates(c *compilation, w io.Writer) error {
	for _, s := range c.states {
		if err := s.WriteText(w); err != nil {
			return err
		}
	}
	return nil
}

func (c *compilation) eliminate() error {
	c.removed = 0
	if c.o.Isolated {
		return nil // what two groups do one after the other is theirs
	}
	return c.blocks(func(g *graph.Graph) error {
		n, err := convert.Eliminate(g)
		c.removed += n
		return err
	})
}

// hoist moves conversions out of loops.
func (c *compilation) hoist() error {
	if c.o.Isolated {
		return nil
	}
	return c.blocks(func(g *graph.Graph) error {
		if convert.Hoist(g) == 0 {
			return nil
		}
		for n := range g.Nodes() { // what was taken out of regions, and what they carry now
			if !partition.HostScheduled(n) {
				continue
			}
			for _, r := range n.Regions {
				if _, err := convert.Eliminate(r.Graph); err != nil {
					return err
				}
				if err := r.Graph.Sort(); err != nil {
					return err
				}
			}
		}
		removed, err := convert.Eliminate(g)
		if c.removed += removed; err != nil {
			return err
		}
		return g.Sort()
	})
}

func (c *compilation) lower() error {
	c.hops = map[*graph.Graph]map[*graph.Node]*convert.Converter{}
	return c.blocks(func(g *graph.Graph) error {
		hops, err := convert.Lower(g, c.registry)
		if err != nil {
			return err
		}
		c.hops[g] = hops
		return g.Sort()
	})
}

// compileGroups compiles every group. The nodes of a group that fails are banned from its backend.
func (c *compilation) compileGroups() error {
	var jobs []groupJob
	byBlock := map[*graph.Graph]*partition.State{}
	for _, s := range c.states {
		byBlock[s.Graph()] = s
	}
	_ = c.blocks(func(g *graph.Graph) error {
		for _, gr := range c.results[g].Groups {
			i := slices.IndexFunc(c.backends, func(b backend.Backend) bool { return b.Info().Name == gr.Backend })
			jobs = append(jobs, groupJob{state: byBlock[g], group: gr, b: c.backends[i]})
		}
		return nil
	})
	c.exes, c.dynamic = map[*graph.Node]backend.Executable{}, map[*graph.Node]bool{}
	equal := make([]twin.Group, len(jobs))
	for i := range jobs {
		equal[i] = twin.Group{Body: jobs[i].group.Body, Exe: &jobs[i].exe}
		if !jobs[i].group.Dynamic && len(c.o.Properties[jobs[i].group.Backend]) == 0 {
			equal[i].Backend = jobs[i].b
		}
	}
	compile := func(list []int) error {
		return pool.Each(c.ctx, len(list), c.o.Threads, c.progress, func(i int) error {
			jobs[list[i]].compile(c)
			return nil
		})
	}
	err := compile(twin.Find(equal))
	if err == nil {
		err = compile(twin.Share(equal))
	}
	for i := range jobs {
		if e := jobs[i].exe; e != nil {
			c.exes[jobs[i].group.Node], c.dynamic[jobs[i].group.Node] = e, jobs[i].group.Dynamic
		}
	}
	if err != nil {
		return err
	}
	for i := range jobs {
		if jobs[i].fail == nil {
			continue
		}
		if err := c.fallBack(&jobs[i]); err != nil {
			return err
		}
	}
	return nil
}

// groupJob is the compilation of one group.
type groupJob struct {
	state *partition.State // nil where it was partitioned at another time
	group *partition.Group
	b     backend.Backend
	exe   backend.Executable
	fail  error
}

// compile asks the backend, whose panic becomes an error.
func (j *groupJob) compile(c *compilation) {
	defer func() {
		if r := recover(); r != nil {
			j.fail = fmt.Errorf("panic: %v", r)
		}
	}()
	if j.exe = c.loadSaved(j); j.exe != nil {
		return
	}
	if j.exe, j.fail = j.b.Compile(c.ctx, j.group.Body, c.o.compileOptions(j.b)); j.fail == nil && j.b.Info().Oracle {
		j.exe = c.lateRanks(j.group.Backend, j.group.Body, j.exe)
	}
}

// loadSaved has the backend of a group load what its executable saved. nil says that the group has to be compiled.
func (c *compilation) loadSaved(j *groupJob) backend.Executable {
	x, known := c.saved[j.group.Node]
	l, ok := j.b.(backend.Loader)
	if !known || !ok || l.Fingerprint() != x.fingerprint {
		return nil
	}
	exe, err := l.Load(c.ctx, j.group.Body, x.bytes, c.o.compileOptions(j.b))
	if err != nil {
		c.o.Logger.WarnContext(c.ctx, "what was saved does not load: the group is compiled", "backend", j.group.Backend, "error", err)
		return nil
	}
	return exe
}

// fallBack bans the nodes of a group that did not compile, unless nobody is left to have them, or Strict is set.
func (c *compilation) fallBack(j *groupJob) error {
	name, nodes := j.group.Backend, j.group.Node.Provenance()
	if c.o.Strict || j.state == nil || j.b == c.backends[len(c.backends)-1] {
		return compileError(nodes, name, j.fail)
	}
	c.o.Logger.WarnContext(c.ctx, "group falls back", "backend", name, "nodes", len(nodes), "error", j.fail)
	if !j.state.Ban(j.group, c.pass, property.Because(property.CompileFailed, "%v", j.fail)) {
		return compileError(nodes, name, j.fail) // nothing would be different another time
	}
	return nil
}

func (c *compilation) closeExecutables() {
	for _, e := range c.exes {
		e.Close()
	}
	c.exes = nil
}

// private reports whether a device's memory ends with the Program, because the backend does, which Compile opened, or because
// the Program has an allocator of its own: what lies there is not shared.
func (c *compilation) private(id tensor.DeviceID) bool {
	if id.IsHost() {
		return c.o.Allocator != nil // which may end with the Program
	}
	for _, b := range c.opened.backends {
		for _, d := range b.Devices() {
			if d.ID() == id {
				return true
			}
		}
	}
	return false
}

// share has arenas, and what else is taken of the host's memory, lie where the first of the backends that cares sees it.
func (c *compilation) share() {
	for _, b := range c.backends {
		if x, ok := b.(backend.Sharing); ok && c.o.Allocator == nil {
			c.o.Allocator = x.Shared()
		}
	}
	for _, p := range c.opened.processes {
		if c.o.Allocator == nil {
			c.o.Allocator = p.Shared()
		}
	}
}

// pack is the pass that converts constants, once per constant and format: those of the model for all its Programs, those
// that simplification made for this Program alone.
func (c *compilation) pack() error {
	var packs []*partition.Pack
	var list []constants.Request
	if err := c.blocks(func(g *graph.Graph) error {
		for i := range c.results[g].Packs {
			p := &c.results[g].Packs[i]
			packs = append(packs, p)
			list = append(list, constants.Request{Key: constants.Key{Constant: p.Constant, Format: p.Format}, Name: p.Name})
		}
		return nil
	}); err != nil {
		return err
	}
	made, err := c.packer.Pack(c.ctx, list, constants.Job{Threads: c.o.Threads, Progress: c.progress})
	if err != nil {
		return err
	}
	for i, p := range packs {
		p.Packed.Data, p.Packed.Handle = made[i].Data, made[i].Handle
		// Reports need the type; the data of folded constants need not be kept.
		p.Constant = &tensor.Tensor{DType: p.Constant.DType, Shape: p.Constant.Shape}
	}
	return nil
}

// ownConstants is the pass that gives groups which read constants as the model stores them copies of their own where that is
// needed: all of them under Options.CopyWeights, so that the model's file is not read after Compile, and otherwise those
// that a file holds at an address unfit for their dtype. The defaults of inputs are treated alike. Equal constants are
// copied once, however often groups are compiled.
func (c *compilation) ownConstants() error {
	var list []*tensor.Tensor
	var values []*graph.Value
	want := func(t *tensor.Tensor) bool {
		return t.DType != tensor.String && (c.o.CopyWeights || exec.Misaligned(t))
	}
	collect := func(g *graph.Graph) {
		for v := range g.Constants() {
			if v.IsConst() && v.Format == graph.HostFormat && want(v.Const) {
				values, list = append(values, v), append(list, v.Const)
			}
		}
	}
	err := c.blocks(func(g *graph.Graph) error {
		collect(g)
		for _, gr := range c.results[g].Groups {
			collect(gr.Body)
		}
		return nil
	})
	if err != nil {
		return err
	}
	defaults := c.model.defaults()
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if t := defaults[name]; want(t) {
			list = append(list, t)
		}
	}
	if err := c.copies.Add(c.ctx, c.devices[tensor.DeviceID{}], list); err != nil {
		return err
	}
	for _, v := range values {
		if own := c.copies.Of(v.Const); own != nil {
			v.Const = own
		}
	}
	return nil
}

// Group implements exec.Code.
func (c *compilation) Group(n *graph.Node) (exe backend.Executable, b backend.Backend, dynamic bool) {
	i := slices.IndexFunc(c.backends, func(b backend.Backend) bool { return b.Info().Name == n.Backend })
	return c.exes[n], c.backends[i], c.dynamic[n]
}

// Hop implements exec.Code.
func (c *compilation) Hop(g *graph.Graph, n *graph.Node) *convert.Converter { return c.hops[g][n] }
