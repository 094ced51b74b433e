package carve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu" // always linked
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bundle"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// Options are the settings of Compile, which copies the lists and maps. The zero value and nil mean the defaults.
type Options struct {
	// Backends in the order that Placement goes by, by registry name. Two are always linked: "cpu", float32 kernels in Go and Go assembly
	// with blocked layouts and packed weights, and "reference", plain kernels for the standard operators. They follow the
	// list implicitly in this order, unless it is only "reference" or Strict is set. Empty means "cpu". One that is
	// unavailable here takes no nodes, and the Report says why. A name with an index, "cuda:1", is the backend on that one of
	// its devices; backends that share a name are opened once, with the options of the first.
	Backends []backend.Config
	// Devices has backends work on several of their devices, or on others than the first: indices by the backend's name. Each
	// is an entry in the list, in this order, in the place of the name: [0, 1] for "cuda" stands for "cuda" and "cuda:1". The
	// errors wrap backend.ErrPlaceable or backend.ErrNoDevice.
	Devices map[string][]int
	// Open holds backends that the caller opened, by the name in Backends that stands for them. Close of the Program leaves
	// them open.
	Open map[string]backend.Backend
	// Plugins are vendors' libraries, or folders of them: their processors are backends that Backends may name. It needs an
	// import of backend/plugin. A library runs with the rights of the process.
	Plugins []string
	// PluginOptions are options of Plugins as a whole, as Backends have them for one processor, whose own count first: with
	// "out-of-process" operators, properties and passes run in a process of the library's, too.
	PluginOptions map[string]string
	// Properties are the user's own, by backend name; they come before the backend's. Those of "cuda" hold on all its devices,
	// those of "cuda:1" on that one.
	Properties map[string][]property.SubgraphProperty
	// DisabledProperties switches properties off by name, the backend's own as well as the user's, by backend name.
	DisabledProperties map[string][]string
	// Pins bind nodes to backends or keep them away; of those that match a node the first counts (see property.Pin). One that matches
	// none has no effect, of which Logger is warned.
	Pins []partition.Pin
	// Placement says how it is decided who runs what; the zero value is Automatic.
	Placement Placement
	// Budget bounds the time that a choice by cost searches where it cannot be certain of the least, for each graph and loop
	// body: it then takes the best that it found, and the Report says how far that may be off. 0 means no bound in time.
	Budget time.Duration
	// Cache is the folder of measurements that Measured reads and Tune writes; "" means the folder carve in os.UserCacheDir.
	Cache string
	// Plan, where it is not nil, has Compile decide as a plan says that was saved: placement, groups and formats, verified like any
	// others, and the order of execution and the offsets in memory where they verify. It takes the place of Placement. A plan for something else is
	// turned down with a *PlanError, unless Recompute is set.
	Plan *Plan
	// Recompute has Compile decide anew, with a warning, where Plan does not fit.
	Recompute bool
	// Dims gives symbols of input shapes a value at compile time.
	Dims map[string]int
	// Shapes gives whole inputs a shape at compile time, by name.
	Shapes map[string][]int
	// Bounds gives symbols of input shapes the largest value that they will have. The arena is allocated for the bounds, so
	// that smaller shapes reuse it, and the plan made for the bounds serves every smaller shape that it is sound for. Larger
	// shapes are turned down with ErrInput. Placement and the order of execution are chosen for the bounds, too.
	Bounds map[string]int
	// Threads is the most workers of a Run; 0 means GOMAXPROCS. Results do not depend on it.
	Threads int
	// MaxSessions bounds concurrent Runs, each with an arena of its own; further callers wait. 0 means GOMAXPROCS, and the most is
	// 65536.
	MaxSessions int
	// Profile sets Threads and MaxSessions where they are 0.
	Profile SessionProfile
	// Streams is how many queues of each device a session uses, so that groups which do not depend on each other overlap; 0
	// means 1. The host has none.
	Streams int
	// OutputDevices says on which device Run leaves outputs, by name, as *Formatted, row-major: for whoever works on them there.
	// The others, and those of the zero DeviceID, it returns on the host.
	OutputDevices map[string]tensor.DeviceID
	// InPlace says which outputs RunInto may be given in the place of an input, by the input's name: what a cache holds so far, and
	// what it holds then. Both are of one element type and of equal dims but for at most one axis. They may overlap where they
	// begin at one address and have the same strides, compact from that axis on, as Slice makes them of a longer tensor. Where the output
	// is the input with something behind it, a Concat of both or a cache of GroupQueryAttention in a group of backend "cpu", nothing of
	// the input is copied. Otherwise the output is written when the run is over. Compile's errors wrap ErrInput and ErrOutput.
	InPlace map[string]string
	// MaxArenaBytes bounds the memory of one session; 0 means no bound. Beyond it Run fails with ErrMemoryLimit. It counts
	// arenas, and beside them what depends on data: late results, sequences and maps, the state of loops and what they
	// collect, what fallbacks hold and reference kernels work in. Inputs, outputs of known shape and weights are not counted.
	MaxArenaBytes int64
	// DeviceLimits bounds what all sessions together hold on a device, in bytes, by the device's name in reports: "host",
	// "cuda:1". What the Program keeps for sessions to come counts too; of the rest what MaxArenaBytes counts. Before a Run
	// fails with ErrMemoryLimit, whose cause is a *device.LimitError, memory of idle sessions is used.
	DeviceLimits map[string]int64
	// Allocator gives the host's memory for arenas, packed and copied constants, and staging: pinned, shared with another
	// process, in large pages. nil means device.Host. Everything is given back when the Program is closed; therefore packed
	// constants on the host are the Program's own then, and not shared with others of the Model.
	Allocator device.Allocator
	// MaxFold bounds the bytes of a constant that folding may create, but for one that is another transposed; 0 means 64 MiB.
	MaxFold int64
	// MaxSpecializations bounds the concrete shapes for which plans are kept, each some 10 KB for a layer of a transformer; 0 means 256.
	// A decoder meets a length at every token: where all are kept, the next text is not planned for again.
	MaxSpecializations int
	// CopyWeights copies constants out of mapped files, so that truncating the file later does no harm. The copies lie
	// outside of Go's heap and belong to the Program (Memory.CopiedWeights).
	CopyWeights bool
	// Strict appends no implicit backend and makes a backend that is unavailable, the first node that no backend takes, and
	// the first group that does not compile or fails, an error.
	Strict bool
	// Isolated makes each operator, what is fused being one, a subgraph of its own that takes its operands row-major on the
	// host, gives its results so, and converts by itself. It runs slower; it shows what the partition saves.
	Isolated bool
	// CountIsolated has the Report say what conversions a run would make if each operator converted on its own (Report.Alone).
	// The model is partitioned once more for that, as Isolated has it, but its groups are not made, nor finished by properties.
	CountIsolated bool
	// MinNodes gives groups of fewer nodes to backends further down the list, where these take them; 0 keeps all. What is
	// fused counts with all its nodes.
	MinNodes int
	// Disconnected allows groups of several unconnected parts, which makes them as few as can be; their memory is held for
	// longer. By default groups are connected.
	Disconnected bool
	// Passes are the user's own; see Pass.
	Passes []Pass
	// KeepOrder leaves nodes in the order of the model. By default they run in the order that needs the least memory.
	KeepOrder bool
	// Verify checks the graph, and what each pass knows, between all passes, and every memory plan.
	Verify bool
	// Poison fills an arena and results with NaN when a run begins, and each buffer when its lifetime ends: a test mode that shows reads
	// of memory that belongs to others by then. Outputs stay the same; runs take longer.
	Poison bool
	// Logger receives what the compiler decides; nil discards it.
	Logger *slog.Logger
	// Observer is told of progress, of the compiler and of loops that take long; nil means nobody.
	Observer func(Progress)
	// Dump, where it is not nil, receives the graph after each pass. It must not change the graph. Passes that come again
	// after nodes were banned from a backend are dumped again.
	Dump func(pass string, g *graph.Graph)
	// DumpTo, where it is not nil, is asked after each pass for where to write the graph's text and what the pass has made
	// beside it, such as candidates, groups and bans; nil means nowhere. An error of the Writer ends Compile.
	DumpTo func(pass string) io.Writer
}

// Errors for errors.Is. Typed errors of the passes (graph, partition, convert, backend, onnx) are wrapped and can be
// found with errors.As.
var (
	// ErrClosed says that the Program, Session, Batcher or Evaluator was closed, or the Model.
	ErrClosed = exec.ErrClosed
	// ErrInput says that an option or an input is wrong, such as one that is missing or has another shape than the model's; of an
	// input of a run the error is an *InputError.
	ErrInput = exec.ErrInput
	// ErrOutput says the same of outputs that the caller provides, or asks for by name.
	ErrOutput = exec.ErrOutput
	// ErrMemoryLimit says that a run needs more memory than Options.MaxArenaBytes or Options.DeviceLimits allow.
	ErrMemoryLimit = exec.ErrMemoryLimit
	// ErrRun says that a step of a run failed; the error is a *StepError.
	ErrRun = exec.ErrRun
	// ErrCompile says that a backend does not compile a group, and nobody else may have it; the error is a *StepError.
	ErrCompile = errors.New("group does not compile")
)

// Placement is how it is decided which backend runs a node, of those that can.
type Placement int

const (
	// Automatic is Modelled where two or more backends take part, that of last resort not counted and those that follow the list
	// implicitly included, and all of them say what they achieve (backend.Info.Efficiency). Otherwise it is Priority.
	Automatic Placement = iota
	// Priority gives a node to the first backend of the list that takes it.
	Priority
	// Modelled chooses by cost: the backends, formats and fusions whose modelled times, with the conversions between them and
	// the launches of groups, are least in sum. The order of the list decides between equals.
	Modelled
	// Measured chooses as Tune found best for the model and these options, or where it has not been there, by cost with whatever was
	// measured of the operators in other models, and modelled times for the rest. It measures nothing by itself: the same folder
	// (Options.Cache), the same choice.
	Measured
)

// placements are the names of placements, by value.
var placements = []string{"automatic", "priority", "modelled", "measured"}

// String returns the name, as ParsePlacement takes it.
func (p Placement) String() string {
	if p < 0 || int(p) >= len(placements) {
		return fmt.Sprintf("Placement(%d)", int(p))
	}
	return placements[p]
}

// ParsePlacement returns the placement of a name; the error wraps ErrInput.
func ParsePlacement(name string) (Placement, error) {
	if i := slices.Index(placements, name); i >= 0 {
		return Placement(i), nil
	}
	return 0, fmt.Errorf("%w: placement %q is none of %s", ErrInput, name, strings.Join(placements, ", "))
}

// SessionProfile is what a Program is to be good at where Threads and MaxSessions are not given.
type SessionProfile int

const (
	// ProfileDefault is as many threads as GOMAXPROCS for each of as many sessions.
	ProfileDefault SessionProfile = iota
	// ProfileLatency is one session on all threads: a run ends soonest.
	ProfileLatency
	// ProfileThroughput is a session of one thread for each of GOMAXPROCS: most runs end in a second, where as many callers ask.
	ProfileThroughput
	// ProfileTuned is what Tune with it found to give GOMAXPROCS callers most runs a second; ProfileDefault where nothing was found.
	ProfileTuned
)

var profiles = []string{"default", "latency", "throughput", "tuned"}

// String returns the name, as ParseProfile takes it.
func (p SessionProfile) String() string {
	if p < 0 || int(p) >= len(profiles) {
		return fmt.Sprintf("SessionProfile(%d)", int(p))
	}
	return profiles[p]
}

// ParseProfile returns the profile of a name; the error wraps ErrInput.
func ParseProfile(name string) (SessionProfile, error) {
	if i := slices.Index(profiles, name); i >= 0 {
		return SessionProfile(i), nil
	}
	return 0, fmt.Errorf("%w: profile %q is none of %s", ErrInput, name, strings.Join(profiles, ", "))
}

// observeLoop tells an Observer of a loop in a run.
func observeLoop(observer func(Progress)) func(node string, done, total int, elapsed time.Duration) {
	return func(node string, done, total int, elapsed time.Duration) {
		observer(Progress{Pass: RunPass, Node: node, Done: done, Total: total, Elapsed: elapsed})
	}
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
		out.own()
	}
	if out.Threads <= 0 {
		out.Threads = runtime.GOMAXPROCS(0)
	}
	if out.MaxSessions <= 0 {
		out.MaxSessions = runtime.GOMAXPROCS(0)
	}
	out.MaxSessions = min(out.MaxSessions, mostSessions)
	if out.MaxFold <= 0 {
		out.MaxFold = 64 << 20
	}
	if out.MaxSpecializations <= 0 {
		out.MaxSpecializations = 256
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	if out.Observer == nil {
		out.Observer = func(Progress) {}
	}
	return out
}

// own replaces lists and maps by copies: Programs read them for as long as they live, and callers may change theirs.
func (o *Options) own() {
	o.Backends = slices.Clone(o.Backends)
	for i := range o.Backends {
		o.Backends[i].Options = maps.Clone(o.Backends[i].Options)
	}
	o.Devices, o.Open, o.Plugins, o.PluginOptions = clonedLists(o.Devices), maps.Clone(o.Open), slices.Clone(o.Plugins), maps.Clone(o.PluginOptions)
	o.Properties, o.DisabledProperties, o.Pins = clonedLists(o.Properties), clonedLists(o.DisabledProperties), slices.Clone(o.Pins)
	o.Dims, o.Shapes, o.Bounds = maps.Clone(o.Dims), clonedLists(o.Shapes), maps.Clone(o.Bounds)
	o.OutputDevices, o.InPlace, o.DeviceLimits = maps.Clone(o.OutputDevices), maps.Clone(o.InPlace), maps.Clone(o.DeviceLimits)
	o.Passes = slices.Clone(o.Passes)
}

func clonedLists[T any](m map[string][]T) map[string][]T {
	out := maps.Clone(m)
	for name, list := range out {
		out[name] = slices.Clone(list)
	}
	return out
}

// mostSessions bounds Options.MaxSessions: each has a place in tables.
const mostSessions = 1 << 16

// implicit are the backends that follow a list, in order of priority.
func implicit() []string { return []string{"cpu", "reference"} }

// kernels run single operators on values of the host, whatever the operator: the last of the implicit backends' do, in
// constant folding, for the host scheduler, as fallback and in Check.
type kernels struct{}

// Eval implements graph.Evaluator.
func (kernels) Eval(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	return reference.Evaluate(ctx, n, inputs)
}

// evaluate is Eval with memory that is counted.
func (kernels) evaluate(ctx context.Context, n *graph.Node, inputs []tensor.Value, reserve func(bytes int64) error) ([]tensor.Value, error) {
	call := reference.Call{Ctx: ctx, Node: n, Inputs: inputs, Reserve: reserve}
	return call.Run()
}

// configs returns the list of backends with its implicit tail. A list of one implicit backend is followed by those behind
// that one only.
func (o *Options) configs() []backend.Config {
	configs, tail := slices.Clone(o.Backends), implicit()
	for i, c := range configs {
		if base, index, named := property.CutDevice(c.Name); named && index == 0 && o.Open[c.Name] == nil {
			configs[i].Name = base
		}
	}
	if len(configs) == 0 {
		configs = []backend.Config{{Name: tail[0]}}
	}
	if o.Strict {
		return configs
	}
	if len(configs) == 1 {
		tail = tail[slices.Index(tail, configs[0].Name)+1:]
	}
	for _, name := range tail {
		if !slices.ContainsFunc(configs, func(c backend.Config) bool { return c.Name == name }) {
			configs = append(configs, backend.Config{Name: name})
		}
	}
	return configs
}

// byEntry returns what is given by backend name by the names in the list: what holds for a backend holds on all its devices.
// Names that are not in the list stay.
func byEntry[T any](given map[string][]T, list []backend.Backend) map[string][]T {
	if len(given) == 0 {
		return given
	}
	out := maps.Clone(given)
	var bases []string
	for _, b := range list {
		name := b.Info().Name
		base, _, named := property.CutDevice(name)
		first := name + ":0"
		if named {
			bases = append(bases, base)
			out[name] = slices.Concat(given[base], given[name])
		} else if of := given[first]; of != nil {
			delete(out, first)
			out[name] = slices.Concat(given[name], of)
		}
	}
	for _, base := range bases { // which may not be in the list by itself
		if !slices.ContainsFunc(list, func(b backend.Backend) bool { return b.Info().Name == base }) {
			delete(out, base)
		}
	}
	return out
}

// checkPins validates the pins that bind nodes to one device of a backend.
func (o *Options) checkPins(list []backend.Backend) error {
	for _, p := range o.Pins {
		base, index, named := property.CutDevice(p.Backend)
		if !named || p.Exclude || slices.ContainsFunc(list, func(b backend.Backend) bool {
			name := b.Info().Name
			return name == p.Backend || index == 0 && name == base
		}) {
			continue
		}
		return fmt.Errorf("%w: a pin to %q, which is not among the backends (see Options.Devices)", backend.ErrNoDevice, p.Backend)
	}
	return nil
}

// checkProperties validates Options.Properties: they belong to listed backends, and no two properties of a backend share
// a name, since a fused node is known by it.
func (o *Options) checkProperties(list []backend.Backend) error {
	for _, name := range slices.Sorted(maps.Keys(o.Properties)) {
		i := slices.IndexFunc(list, func(b backend.Backend) bool { return b.Info().Name == name })
		if i < 0 {
			return fmt.Errorf("%w: properties for %q, which is not among the backends", backend.ErrUnknown, name)
		}
		seen := map[string]bool{}
		for _, p := range append(slices.Clone(o.Properties[name]), list[i].Properties()...) {
			if p == nil {
				return fmt.Errorf("%w: a nil property for %s", backend.ErrOption, name)
			}
			if seen[p.Name()] {
				return fmt.Errorf("%w: two properties of %s are named %q", backend.ErrOption, name, p.Name())
			}
			seen[p.Name()] = true
		}
	}
	return o.checkDisabled(list)
}

// checkDisabled validates Options.DisabledProperties: an unknown name would switch nothing off. Backends that are unavailable
// have no properties of their own to compare with.
func (o *Options) checkDisabled(list []backend.Backend) error {
	for _, name := range slices.Sorted(maps.Keys(o.DisabledProperties)) {
		i := slices.IndexFunc(list, func(b backend.Backend) bool { return b.Info().Name == name })
		if i < 0 {
			return fmt.Errorf("%w: disabled properties of %q, which is not among the backends", backend.ErrUnknown, name)
		}
		if _, gone := list[i].(*absent); gone {
			continue
		}
		var known []string
		for _, p := range slices.Concat(o.Properties[name], list[i].Properties()) {
			known = append(known, p.Name())
		}
		for _, p := range o.DisabledProperties[name] {
			if !slices.Contains(known, p) {
				return fmt.Errorf("%w: %s has no property %q to switch off (it has: %s)", property.ErrUnknown, name, p, strings.Join(known, ", "))
			}
		}
	}
	return nil
}

// deviceLimits returns DeviceLimits by device. The error wraps ErrInput, or backend.ErrNoDevice for a name that no device has.
func (o *Options) deviceLimits(devices map[tensor.DeviceID]device.Device) (map[tensor.DeviceID]int64, error) {
	out := map[tensor.DeviceID]int64{}
	for _, name := range slices.Sorted(maps.Keys(o.DeviceLimits)) {
		n, found := o.DeviceLimits[name], false
		if n <= 0 {
			return nil, fmt.Errorf("%w: a limit of %d bytes on device %q", ErrInput, n, name)
		}
		var known []string
		for id := range devices {
			if id.String() == name {
				out[id], found = n, true
			}
			known = append(known, id.String())
		}
		if !found {
			slices.Sort(known)
			return nil, fmt.Errorf("%w: a limit on %q (there are: %s)", backend.ErrNoDevice, name, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// compileOptions returns what a backend is told when it compiles a group.
func (o *Options) compileOptions(b backend.Backend) backend.CompileOptions {
	var own []property.SubgraphProperty
	if o.Properties != nil {
		own = o.Properties[b.Info().Name]
	}
	return backend.CompileOptions{Threads: o.Threads, Properties: own}
}

// bounded returns Bounds as values of symbols: what estimates count them as.
func (o *Options) bounded() graph.Bindings {
	b := graph.Bindings{}
	for name, n := range o.Bounds {
		b[name] = int64(n)
	}
	return b
}

// bundledOptions returns the options that a bundle names: those that decisions depend on.
func bundledOptions(o *Options) bundle.Options {
	var backends []string
	for _, c := range o.Backends {
		backends = append(backends, c.Name)
	}
	return bundle.Options{Backends: backends, Devices: o.Devices, Disabled: o.DisabledProperties, Pins: o.Pins, Placement: o.placementName(),
		Dims: o.Dims, Bounds: o.Bounds, Shapes: o.Shapes, Threads: o.Threads, MaxFold: o.MaxFold, MinNodes: o.MinNodes, Strict: o.Strict,
		Isolated: o.Isolated, Disconnected: o.Disconnected, KeepOrder: o.KeepOrder}
}
