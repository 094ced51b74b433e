// Package backend defines what a processor looks like to carve: what it is (Info), which operators it takes (Support), how it
// compiles and runs groups of them (Executable, Instance), its memory and conversions, and the registry of backends.
//
// # Where to start
//
// Who uses backends names them in a list of [Config] and needs no more of this package. Who writes one implements three
// interfaces, in the order in which they are asked: [Backend] says which nodes it takes, in which formats, and compiles a
// subgraph to an [Executable]; that makes an [Instance] for concrete shapes, which says what memory it needs and runs.
// examples/custom-backend is one in a single file, and package backendtest proves that a backend keeps the contract.
// [Negotiator], [Claimer], [Estimator], [KernelProvider], [Repeating], [Loader] and, on executables, [Saver] are optional: abilities are
// added by interfaces, and the base interface does not grow.
//
// A backend registers itself from init ([Register]), like a database/sql driver, or is handed over by the caller.
package backend

import (
	"context"
	"errors"
	"log/slog"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Backend runs subgraphs on one kind of processor. Implementations are safe for concurrent use.
type Backend interface {
	// Info describes the processor and the implementation.
	Info() Info
	// Supports tells whether and how the backend runs a node: its signatures and cost, or the reason why not. It is asked
	// about plain operators and about the carve.Fused nodes of its own properties, and about each If, Loop and Scan: who supports
	// one gets it whole, with the regions and all that they capture, row-major on the host, unless the choice is by cost and its
	// parts cost less than the Cost.Nanoseconds that Supports names for it. It must not change the node.
	Supports(n *graph.Node) Support
	// Properties says how the backend wants nodes grouped, in order of priority.
	Properties() []property.SubgraphProperty
	// Compile prepares a subgraph. Its values carry the formats that were chosen; Convert nodes in it are the backend's to
	// run. The graph must not be changed and may be kept.
	Compile(ctx context.Context, sub *graph.Graph, o CompileOptions) (Executable, error)
	// Devices returns the memory spaces that the backend works in; the first is where its groups' values live. Others hold
	// its groups' values where the backend is Placeable, and may be ends of its converters.
	Devices() []device.Device
	// Converters returns converters from and to the host row-major format, and direct ones.
	Converters() []convert.Converter
	// Close frees what the backend holds. Nothing of it is used afterwards.
	Close() error
}

// Info describes a processor and the implementation behind a backend. It is the same for as long as the backend is open.
// Facts that are left out promise nothing.
type Info struct {
	Name      string // registry name
	Version   string // of the implementation: a change makes saved plans invalid
	Processor string // such as "AMD EPYC, AVX-512"
	Path      string // of the library that was opened, "" where there is none
	Memory    int64  // bytes of device memory, 0 for the host's
	Threads   bool   // it has threads of its own: carve parks its pool while it runs
	// Precision names the type that float32 operands of matrix products and convolutions are rounded to, where an option asks for
	// that, or says in which one some of them are kept; "" where they are not.
	Precision string
	// Components are libraries that the backend uses beside its own where they are found.
	Components []Component
	// Unmet says which option has no effect on this processor, and why; "" for none. Under carve.Options.Strict that is an error.
	Unmet string
	// Oracle says that the backend's kernels are those that a failed group falls back to and that checks compare with: its
	// own groups have no fallback and are not checked.
	Oracle bool
	// Kernels says that the backend, which works in the host's memory, calls kernels that properties bring (KernelProvider).
	Kernels bool
	// Layouts of the host, beside row-major, that the backend's signatures name. The shortest conversions between these of
	// all backends, and to and from formats of converters, are known; others go by way of row-major.
	Layouts []graph.Layout
	// Efficiency is what the backend achieves on this processor: nodes for which Support.Cost names no time are modelled by it.
	// nil means that only Support.Cost says.
	Efficiency *Efficiency
}

// Component is a library that a backend uses beside its own where it is found.
type Component struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // "" where it was not found
	Path    string `json:"path,omitempty"`
	// Unused says why it is not used: it was not found, an option forbids it, or it does not work here; "" where it is.
	Unused string `json:"unused,omitempty"`
}

// Support is the answer about one node. Reason is nil where the node is supported.
type Support struct {
	Signatures []graph.Signature // best first
	Cost       property.Cost     // for one thread or however many the backend runs on; no time: see Info.Efficiency
	Reason     *property.Reason
}

// No returns the answer of a backend that turns a node down.
func No(code property.Code, format string, args ...any) Support {
	return Support{Reason: property.Because(code, format, args...)}
}

// CompileOptions are the settings of a compilation.
type CompileOptions struct {
	Threads int // most workers of a run
	// Properties are the user's own that are attached to the backend; some bring kernels, see KernelProvider.
	Properties []property.SubgraphProperty
}

// Executable is a compiled subgraph, generic in symbolic dims. It is safe for concurrent use.
type Executable interface {
	// Specialize returns the instance for concrete values of the symbols. It may refuse, with an error: the group then
	// falls back for these shapes. Where the shapes of the group depend on data, bindings lack the unbacked symbols, and the
	// outputs are allocated by RunArgs.Alloc; an error that wraps graph.ErrUnbound then has the group specialised in the run
	// instead, for the shapes that its operands have, with outputs that are there.
	Specialize(ctx context.Context, b graph.Bindings) (Instance, error)
	Close() error
}

// Instance is a subgraph for concrete shapes. It is immutable and safe for concurrent use by sessions.
type Instance interface {
	// Requirements tells what memory the instance needs and how its buffers may be shared.
	Requirements() Requirements
	// Enqueue puts a run onto a.Stream: it begins when what was queued there before is over, and what is queued afterwards
	// begins behind it. The Event, nil where the run is over, reports its end. On the host, whose stream has no queue, the
	// run begins at once, and its Event alone orders what follows. An error says that nothing was queued; it is a
	// *ContiguousError where an operand has to lie otherwise. ctx is the run's: the rest of the work is not done when it has
	// ended, and the error, or the Event's, is then ctx's. a is the session's: the same for every run of this instance in that
	// session, and unchanged from Enqueue until the Event happens.
	Enqueue(ctx context.Context, a *RunArgs) (device.Event, error)
}

// Requirements are an instance's needs. Times are sub-steps, counted from 0 to Steps-1: the planner may give the same
// memory to buffers whose [First, Last] ranges do not touch.
type Requirements struct {
	Steps   int       // number of sub-steps; 0 counts as 1
	Inputs  []PortUse // one per input of the subgraph
	Outputs []PortUse // one per output
	Buffers []Buffer  // intermediate values and workspace, in the device's memory
	InPlace []InPlace // pairs that may share storage
	// Extends are pairs of ports with Strided of which the output begins with the input, along one axis. The caller may give both
	// at one address, with the same strides: then the instance writes what is behind the input, and nothing of that but elements that
	// are other ones in the output.
	Extends []InPlace
	NoReuse bool       // the buffers must not share memory with each other
	Labels  []StepInfo // one per sub-step, for profiles; may be nil
	// Constants are constants in formats that suit these shapes better than those that the subgraph has them in.
	// RunArgs.Constants has them behind the subgraph's own, in this order. Each is made once, for all who want it.
	Constants []ConstantForm
	// Libraries names those that do some of the steps in the place of the backend's own kernels, for reports.
	Libraries []string
}

// ConstantForm is constant Index, in the order of the subgraph's Constants, in another format: a described layout of the
// host, or one that converters of the registry know.
type ConstantForm struct {
	Index  int
	Format graph.Format
}

// PortUse tells the physical size of a port, the sub-steps that touch it, and how its storage may lie.
type PortUse struct {
	Bytes       int64
	First, Last int
	// Strided says that the port, whose format is row-major, takes tensors with Strides of their own, which a caller's inputs
	// and outputs may have; Enqueue may still turn one down with a *ContiguousError. Others get compact storage alone.
	Strided bool
	// Align is what the address of element 0 has to be a multiple of, in bytes, up to tensor.Alignment; on devices whose
	// handles are no addresses, its offset. 0 means the element type's own alignment.
	Align int64
}

// Buffer is memory that the instance needs from First to Last, both included. Align 0 means tensor.Alignment.
type Buffer struct {
	Bytes       int64
	Align       int64
	First, Last int
}

// InPlace says that Output may overwrite Input: the instance reads each element of the input before it writes the same
// place of the output.
type InPlace struct{ Output, Input int }

// StepInfo describes a sub-step for profiles.
type StepInfo struct {
	Name    string   // of the node
	Op      string   // operator or pattern
	Origins []string // the model's nodes
	FLOPs   float64  // that it does, a multiply-add counting twice; 0 where not known
}

// RunArgs are the arguments of a run. Tensors describe logical shapes; their storage is in the formats of the subgraph's
// values, PhysicalSize bytes long, or strided where the port says so. They live as long as the session and are patched
// between runs.
type RunArgs struct {
	Inputs    []*tensor.Tensor
	Outputs   []*tensor.Tensor // nil entries: to be allocated with Alloc
	Constants []*tensor.Tensor // in the order of the subgraph's Constants, nil for dims values; then Requirements.Constants
	Buffers   []*tensor.Tensor // one per Requirements.Buffers, as uint8 vectors
	Workers   *device.Workers  // the host's, until Enqueue returns; nil means serial
	Stream    device.Stream    // of the device that the group is on
	// Alloc provides the storage of an output whose shape depends on data, once the shape is known: with any contents, and the caller's own
	// where it has given a tensor of that shape. A backend allocates
	// nothing else by itself, unless it tells Reserve. It is called before the run's Event happens, and by one goroutine at a time: carve does nothing
	// else in the session while such a run is under way.
	Alloc func(output int, dt tensor.DType, shape []int) (*tensor.Tensor, error)
	// Reserve, where it is not nil, counts memory that a backend takes from elsewhere during the run, before it does, and with
	// a negative number when it has given it back. Its error, which says that this is more than the caller allows, is the
	// run's. It may be called from several goroutines.
	Reserve func(bytes int64) error
	// Trace, where it is not nil, is called at the end of each sub-step, in order, before the run's Event happens. Where there are none
	// it may be left out.
	Trace func(step int)
	// Local is the instance's own state for this session: nil at first, then whatever the instance stored.
	Local any
}

// Negotiator names the formats that a finished group wants at its edges and for its constants.
type Negotiator interface {
	// Negotiate returns wanted formats for the inputs, outputs and constants of a group (keys are values of sub). What it
	// leaves out stays as the assignment chose it, and what sub does not have is ignored. Each format has to be one that the
	// value can be converted to. An error that wraps ErrRefused gives the group's nodes to backends further down the list;
	// another one ends the compilation.
	Negotiate(ctx context.Context, sub *graph.Graph) (map[*graph.Value]graph.Format, error)
}

// Placeable is implemented by backends that have several devices and run groups on each of them.
type Placeable interface {
	// On returns the backend as it works on one of its Devices: a backend whose first device is that one, and whose
	// signatures name it, with the same library behind it. Its Info has another Name, "cuda:1" for device 1 of "cuda"; what
	// is on the first device is the backend itself. The result is the caller's to close, before the backend it came from.
	On(id tensor.DeviceID) (Backend, error)
}

// Logging is implemented by backends that have something to log.
type Logging interface {
	// SetLogger says where to. It is called before the first compilation.
	SetLogger(l *slog.Logger)
}

// Sharing is implemented by backends that see some memory of the host better than other: arenas lie in it where
// Options.Allocator names none.
type Sharing interface {
	// Shared returns that memory, nil where all is alike. It outlives the backend.
	Shared() device.Allocator
}

// Isolated is implemented by backends whose work may be done in a process of its own.
type Isolated interface {
	// Process tells how that process has fared; ok is false where there is none.
	Process() (p Process, ok bool)
}

// Process is a process that does a backend's work.
type Process struct {
	Restarts int    // how often another one took its place
	Last     string // why the last one ended, "" where none has
}

// Claimer is implemented by backends that claim sets of nodes by means of their own, beyond properties.
type Claimer interface {
	Claims(ctx context.Context, g *graph.Graph) ([]property.Claim, error)
}

// Estimator is implemented by backends whose values share memory within a group, and that know how before they compile
// it. The order of execution is chosen for the least memory by what they say; of other backends' groups each value counts
// with its own size.
type Estimator interface {
	// Estimate describes the memory of a group's body, for concrete values of all its symbols: a guess where they are open.
	// It asks for no order of the nodes. The graph must not be changed, and is not kept. An error means not known.
	Estimate(ctx context.Context, sub *graph.Graph, b graph.Bindings, o CompileOptions) (*Footprint, error)
}

// Footprint is how the values of a group's body share memory, without workspace. Values and nodes go by their ids.
type Footprint struct {
	// Bytes per value of the memory that it stands for, 0 where that lies in another's, or outside of the arena.
	Bytes []int64
	// Within names per value the one in whose memory it lies, itself for none: a view lies in its operand, an operand of a
	// concatenation in the result.
	Within []int
	// Overwrite lists per node the operands whose memory its first result may take where nobody reads them later.
	Overwrite [][]int
}

// Repeating is implemented by backends that compile one of several equal subgraphs for all of them, such as the layers of a transformer.
// It is worth it where compiling takes long: to compare two groups takes some 0.1 ms, more than the built-in backends need for one.
// A plugin implements it by a flag of its processor (CARVE_PROCESSOR_REPEATS).
type Repeating interface {
	// Repeats reports whether what Compile makes of sub runs every subgraph that is equal to it but for names and for what is in
	// constants of more than RepeatedContent elements: nothing of these is read before a run, which finds them in RunArgs. Instances
	// are shared as well; each group has RunArgs of its own. Groups with properties of the user's are compiled one by one.
	Repeats(sub *graph.Graph) bool
}

// RepeatedContent is the most elements of a constant whose content has to be the same in subgraphs that are run by one executable.
const RepeatedContent = 64

// IntegerReader is implemented by backends whose properties make some operators on floats work on the integers that these were
// dequantised from.
type IntegerReader interface {
	// ReadsIntegers reports whether the backend would rather have the constant integers behind operand k of n, which a
	// DequantizeLinear makes floats of, than those floats as a constant. It changes nothing.
	ReadsIntegers(n *graph.Node, k int) bool
}

// Saver is implemented by Executables that can be written to a file: what a compilation took long for, as the backend's own bytes.
type Saver interface {
	// Save returns what the backend's Load makes the executable of again. It changes nothing, and may be called by several
	// goroutines; the bytes are the caller's. nil without an error says that there is nothing worth keeping.
	Save(ctx context.Context) ([]byte, error)
}

// Loader is implemented by backends whose executables are Savers.
type Loader interface {
	// Fingerprint names, in one line, everything beside the subgraph and the options that what is saved depends on: versions
	// of the format, of compilers and drivers, the kind of device. What was saved under another one is not shown to Load.
	Fingerprint() string
	// Load is Compile of a subgraph from what an executable of the same subgraph, with the same options, saved under the same
	// fingerprint. The bytes may come from anywhere, so that whatever they say has to be checked; they lie in a file that is
	// mapped, must not be changed, and stay there until the executable is closed. After an error the subgraph is compiled.
	Load(ctx context.Context, sub *graph.Graph, saved []byte, o CompileOptions) (Executable, error)
}

// Errors for errors.Is.
var (
	ErrUnknown     = errors.New("unknown backend")
	ErrUnavailable = errors.New("backend is unavailable")
	ErrOption      = errors.New("bad backend option")
	ErrRefused     = errors.New("the backend refuses the group")
	ErrNoDevice    = errors.New("no such device")
	ErrPlaceable   = errors.New("the backend cannot be placed on one of several devices")
)
