package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Backend is a processor of a plugin as a backend.
type Backend struct {
	p          *processor
	space      device.Device
	operators  map[operator][]cOp
	converters []convert.Converter
	layouts    []graph.Layout // of the host, that converters name
	closed     atomic.Bool
	open       atomic.Int64 // executables that are not closed
}

type operator struct{ domain, name string }

// opened are the processors in use, for copies between them.
var opened struct {
	sync.Mutex
	m    map[tensor.DeviceID]*processor
	last int32 // index of the last memory of type ExtDev
}

// opened returns the open processor with that memory, nil where there is none of this plugin.
func (l *Library) opened(id tensor.DeviceID) *processor {
	opened.Lock()
	defer opened.Unlock()
	if p := opened.m[id]; p != nil && p.l == l {
		return p
	}
	return nil
}

// outside translates a device to the plugin's numbers.
func (l *Library) outside(id tensor.DeviceID) (deviceType, deviceID int32) {
	if id.IsHost() {
		return int32(tensor.Host), 0
	}
	if p := l.opened(id); p != nil {
		return p.info.deviceTy, p.info.deviceID
	}
	return int32(id.Type), id.Index
}

// deviceOf translates a device from the plugin's numbers. A processor that is open several times has the same numbers each
// time, and a memory for each: the processor's own goes first, then that of another one that was opened first.
func (p *processor) deviceOf(deviceType, deviceID int32) (tensor.DeviceID, error) {
	if id := (tensor.DeviceID{Type: tensor.DeviceType(deviceType)}); id.IsHost() {
		return tensor.DeviceID{}, nil
	}
	if p.ownMemory() && p.info.deviceTy == deviceType && p.info.deviceID == deviceID {
		return p.id, nil
	}
	opened.Lock()
	defer opened.Unlock()
	var found *processor
	for _, q := range opened.m {
		if q.l == p.l && q.info.deviceTy == deviceType && q.info.deviceID == deviceID && (found == nil || q.id.Index < found.id.Index) {
			found = q
		}
	}
	if found == nil {
		return tensor.DeviceID{}, fmt.Errorf("%w: %s names the device %d:%d, which none of its open processors has", ErrPlugin, p.l.path, deviceType, deviceID)
	}
	return found.id, nil
}

// Open opens a processor of the plugin. Options are the plugin's own. The error wraps backend.ErrUnknown, or what the plugin
// says: backend.ErrUnavailable.
func (l *Library) Open(processorName string, options map[string]string) (*Backend, error) {
	i := slices.IndexFunc(l.processors, func(p Processor) bool { return p.Name == processorName })
	if i < 0 {
		return nil, fmt.Errorf("%w: %s has no processor %q", backend.ErrUnknown, l.path, processorName)
	}
	p := &processor{l: l, info: l.processors[i], blocks: map[uintptr]*memory{}}
	if p.info.flags&processorOneThread != 0 {
		p.serial = &sync.Mutex{}
	}
	for k, v := range options {
		p.options = append(p.options, k+"="+v)
	}
	slices.Sort(p.options)
	if l.apart != nil {
		var err error
		if p.proc, err = l.enter(); err != nil {
			return nil, fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
		}
		p.before = l.stats()
	}
	w, done := p.writer()
	defer done()
	b := &Backend{p: p, space: device.Host}
	if p.proc == nil {
		w.err = p.open(w)
	}
	if w.err != nil {
		b.leave()
		return nil, fmt.Errorf("%w: %w", backend.ErrUnavailable, w.err)
	}
	if err := b.begin(w); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// begin gives the processor's memory its place among the devices, and asks for operators and converters.
func (b *Backend) begin(w *writer) error {
	p := b.p
	if p.ownMemory() {
		opened.Lock()
		if p.id = (tensor.DeviceID{Type: tensor.DeviceType(p.info.deviceTy), Index: p.info.deviceID}); p.id.Type == tensor.ExtDev {
			opened.last++ // vendors cannot know of each other's numbers
			p.id.Index = extensionBase + opened.last
		}
		_, taken := opened.m[p.id]
		if !taken && !p.id.IsHost() {
			if opened.m == nil {
				opened.m = map[tensor.DeviceID]*processor{}
			}
			opened.m[p.id] = p
		}
		opened.Unlock()
		if taken || p.id.IsHost() {
			p.id = tensor.DeviceID{}
			return fmt.Errorf("%w: %s: processor %s has memory of the device %d:%d, which is in use or the host's", ErrPlugin, p.l.path,
				p.info.Name, p.info.deviceTy, p.info.deviceID)
		}
		b.space = &space{p}
	}
	if err := b.readOperators(w); err != nil {
		return err
	}
	return b.readConverters(w)
}

// extensionBase is where the numbers of plugins' memories begin.
const extensionBase = 1 << 10

func (b *Backend) readOperators(w *writer) error {
	out, n := one[uintptr](w), one[uint64](w)
	if w.err != nil {
		return w.err
	}
	if err := b.p.plain(w.side, "operators", b.p.l.table.operators, b.p.handle(), address(out), address(n)); err != nil {
		return err
	}
	ops, err := views[cOp](w.side, *out, *n, "operator")
	if err != nil {
		return fmt.Errorf("%s: %w", b.p.l.path, err)
	}
	b.operators = map[operator][]cOp{}
	for _, op := range ops {
		k := operator{w.side.text(op.domain), w.side.text(op.name)}
		if k.domain == "ai.onnx" {
			k.domain = ""
		}
		b.operators[k] = append(b.operators[k], op)
	}
	return nil
}

// Info implements backend.Backend.
func (b *Backend) Info() backend.Info {
	p := b.p
	return backend.Info{Name: p.info.Name, Version: p.info.Version, Processor: p.info.Arch, Path: p.l.path, Memory: p.info.Memory,
		Threads: p.info.flags&processorOwnThreads != 0, Layouts: b.layouts}
}

// SetLogger implements backend.Logging: what the plugin logs, whichever of its processors it is about, goes to the last.
func (b *Backend) SetLogger(l *slog.Logger) { b.p.l.host.logger.Store(l) }

// Repeats implements backend.Repeating: what the plugin's processor says of all its groups.
func (b *Backend) Repeats(*graph.Graph) bool { return b.p.info.flags&processorRepeats != 0 }

// Devices implements backend.Backend.
func (b *Backend) Devices() []device.Device { return []device.Device{b.space} }

// Converters implements backend.Backend.
func (b *Backend) Converters() []convert.Converter { return b.converters }

// Properties implements backend.Backend.
func (b *Backend) Properties() []property.SubgraphProperty { return nil }

// Close implements backend.Backend. The error wraps ErrPlugin where the plugin says that something of it is still alive.
func (b *Backend) Close() error {
	p := b.p
	if n := b.open.Load(); n > 0 {
		return fmt.Errorf("%w: %s: %d executables are open", ErrPlugin, p.info.Name, n)
	}
	if b.closed.Swap(true) {
		return nil
	}
	defer b.leave()
	leak := b.leaks()
	err := p.end(handle{p.life.Load(), p.word.Load()}, "close", p.l.table.close)
	opened.Lock()
	if opened.m[p.id] == p {
		delete(opened.m, p.id)
	}
	opened.Unlock()
	return errors.Join(leak, err)
}

// leave gives up the process that the plugin runs in.
func (b *Backend) leave() {
	if b.p.proc == nil {
		return
	}
	for {
		pg, ok := b.p.pages.Get().(*page)
		if !ok {
			break
		}
		pg.end() // or the shared memory stays until it is collected
	}
	b.p.l.leave()
}

// leaks returns an error where the plugin counts objects that carve has given back.
func (b *Backend) leaks() error {
	if b.p.l.table.live == 0 {
		return nil
	}
	w, done := b.p.writer()
	defer done()
	c := one[cLive](w)
	c.size = uint32(unsafe.Sizeof(*c))
	if b.p.proc != nil && (w.err != nil || w.life != b.p.life.Load()) {
		return nil // all is lost with the process
	}
	if err := b.p.plain(w.side, "live", b.p.l.table.live, b.p.handle(), address(c)); err != nil {
		return err
	}
	for _, x := range []struct {
		what string
		n    int64
	}{{"executables", c.executables}, {"instances", c.instances}, {"sessions", c.sessions}, {"events", c.events}, {"streams", c.streams}, {"blocks", c.blocks}} {
		if x.n != 0 {
			return fmt.Errorf("%w: %s still has %d %s when all are closed", ErrPlugin, b.p.info.Name, x.n, x.what)
		}
	}
	return nil
}

// Negotiate implements backend.Negotiator.
func (b *Backend) Negotiate(_ context.Context, sub *graph.Graph) (map[*graph.Value]graph.Format, error) {
	l := b.p.l
	if l.table.negotiate == 0 {
		return nil, nil
	}
	w, done := b.p.writer()
	defer done()
	d, err := l.describeGroup(w, sub)
	if err != nil {
		return nil, err
	}
	wanted := many[uintptr](w, len(d.values))
	if len(wanted) == 0 || w.err != nil {
		return nil, w.err
	}
	if err := b.p.do(w, "negotiate", l.table.negotiate, b.p.handle(), address(d.at), address(&wanted[0])); err != nil {
		return nil, err
	}
	formats := map[*graph.Value]graph.Format{}
	for i, at := range wanted {
		if at == 0 {
			continue
		}
		if formats[d.values[i]], err = b.p.readFormat(w.side, at); err != nil {
			return nil, err
		}
	}
	return formats, nil
}

// Claims implements backend.Claimer.
func (b *Backend) Claims(_ context.Context, g *graph.Graph) ([]property.Claim, error) {
	l := b.p.l
	if l.table.claim == 0 {
		return nil, nil
	}
	w, done := b.p.writer()
	defer done()
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	d, out := l.describe(w, order), one[uintptr](w)
	if w.err != nil {
		return nil, w.err
	}
	if err := b.p.do(w, "claim", l.table.claim, b.p.handle(), address(d.at), address(out)); err != nil || *out == 0 {
		return nil, err
	}
	if l.table.releaseClaims != 0 {
		defer func() { _ = b.p.plain(w.side, "release_claims", l.table.releaseClaims, b.p.handle(), *out) }()
	}
	return l.readClaims(w.side, *out, d)
}

// readClaims reads a plugin's claims about a described graph.
func (l *Library) readClaims(from side, at uintptr, d *description) ([]property.Claim, error) {
	list, err := view[cClaims](from, at, "claims")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.path, err)
	}
	claims, err := views[cClaim](from, list.claims, uint64(list.n), "claim")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.path, err)
	}
	var out []property.Claim
	for i, c := range claims {
		nodes, err := words[uint32](from, c.nodes, c.nNodes, "nodes of a claim")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.path, err)
		}
		claim := property.Claim{Name: from.text(c.name), Kind: property.Kind(min(c.kind, uint32(property.Admitting))), Cost: property.Cost{Nanoseconds: c.ns}}
		for _, n := range nodes {
			if int(n) >= len(d.nodes) {
				return nil, fmt.Errorf("%w: %s: claim %d has node %d of %d", ErrPlugin, l.path, i, n, len(d.nodes))
			}
			claim.Nodes = append(claim.Nodes, d.nodes[n])
		}
		if !validName(claim.Name) || len(claim.Nodes) == 0 {
			return nil, fmt.Errorf("%w: %s: claim %d has the name %q and %d nodes", ErrPlugin, l.path, i, claim.Name, len(claim.Nodes))
		}
		out = append(out, claim)
	}
	return out, nil
}
