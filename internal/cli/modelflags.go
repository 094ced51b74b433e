package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
)

// modelFlags are the settings of commands that take a model. Their flags stand in one table, flags; a command takes those
// of the groups that it asks for, and the others keep their zero values.
type modelFlags struct {
	dims, shapes   []string
	openDims       []string
	inputs         []string
	override       []string
	params         string
	outputLayers   []string
	backends       []string
	backendOptions []string
	plugins        []string
	pluginOptions  []string
	disabled       []string
	pins           []string
	config         string
	properties     []string
	strict         bool
	threads        int
	maxMemory      string
	deviceMemory   []string
	minNodes       int
	disconnected   bool
	placement      string
	cache          string
	hint           string
	budget         time.Duration
	plan           string
	recompute      bool
	inPlace        []string
	edit           func(*carve.Options) // what a command sets beyond the flags; may be nil
	measuring      bool                 // the command measures the values of --open
}

// flagGroup is a set of model flags that a command takes as a whole; groups are or-ed.
type flagGroup uint

const (
	shaping    flagGroup = 1 << iota // concrete shapes
	overriding                       // how the model's files are read: initializers that stay inputs, parameters, outputs
	feeding                          // data of inputs
	compiling                        // backends, and how the compiler and a run go about it
	extending                        // what vendors' libraries bring
)

// modelFlag is a row of the table: a flag, and how Options come by its value.
type modelFlag struct {
	group  flagGroup
	name   string
	usage  string
	define func(cmd *cobra.Command, name, usage string)
	apply  func(o *carve.Options) error // nil for what is no option: what is read together with the model
}

// flags is the table. Options are applied in its order.
func (f *modelFlags) flags() []modelFlag {
	return []modelFlag{
		{shaping, "dim", "value of a symbolic dim, `NAME=N`; unset ones are 1 (repeatable)", repeatable(&f.dims), nil},
		{shaping, "shape", "shape of an input, `INPUT=1,128` (repeatable)", repeatable(&f.shapes), nil},
		{shaping, "open", "leave symbolic dim `NAME` open: compile for all of its values, of which --dim says the one at hand (repeatable)", repeatable(&f.openDims), nil},
		{overriding, "override", "keep initializer `NAME`, which the model lists as an input, an input (repeatable)", repeatable(&f.override), nil},
		{overriding, "params", "parameters of a model of Apache MXNet, a `FILE`; unset means the newest beside its symbol", text(&f.params), nil},
		{overriding, "output-layer", "result of a model of Apache MXNet, by the `NAME` of any layer, in place of its own (repeatable)", repeatable(&f.outputLayers), nil},
		{feeding, "input", "data of an input, `NAME=FILE.npy` or NAME=FILE.pb (repeatable)", repeatable(&f.inputs), nil},
		{compiling, "backend", "backends by their `NAMES`, in order of priority, such as mkl,cpu; NAME:1 is one on its second device; unset means cpu", commaList(&f.backends), f.applyBackends},
		{compiling | extending, "plugin", "vendor's `LIBRARY`, or folder of libraries: operators, properties, passes, and processors that --backend may name (repeatable)", repeatable(&f.plugins), f.applyPlugins},
		{compiling | extending, "plugin-option", "option of all plugins, `KEY=VALUE`, such as out-of-process=true (repeatable)", repeatable(&f.pluginOptions), nil},
		{compiling, "disable-property", "leave a property of a backend out, `BACKEND.NAME`, such as cpu.conv-tail (repeatable)", repeatable(&f.disabled), f.applyDisabled},
		{compiling, "pin", "bind nodes to a backend, `NODE=BACKEND`, or keep them away from it, NODE=!BACKEND; NODE is a name in the model or a glob, ** for all (repeatable; the first that matches counts)", repeatable(&f.pins), f.applyPins},
		{compiling, "config", "pins and properties from a JSON `FILE`", text(&f.config), f.applyConfigFile},
		{compiling, "property", "add a registered property to a backend, `BACKEND.NAME`, or BACKEND.NAME=OPTIONS with its options as JSON (repeatable)", repeatable(&f.properties), f.applyProperties},
		{compiling, "backend-option", "option of a backend, `BACKEND.KEY=VALUE` (repeatable)", repeatable(&f.backendOptions), nil},
		{compiling, "strict", "no implicit backends; an error where a node or group finds no place", truth(&f.strict), f.applyStrict},
		{compiling, "min-nodes", "give groups of fewer than `N` nodes to backends further down the list, where these take them", number(&f.minNodes), f.applyMinNodes},
		{compiling, "disconnected", "allow groups of several unconnected parts, which makes them as few as can be", truth(&f.disconnected), f.applyDisconnected},
		{compiling, "placement", "`HOW` nodes that several backends run are placed: priority, on the first of them; modelled, by cost; measured, as tune found fastest; automatic, as without the flag, by cost where several backends say what they achieve", text(&f.placement), f.applyPlacement},
		{compiling, "cache", "`FOLDER` of what tune has measured; unset means carve in the user's folder of caches", text(&f.cache), f.applyCache},
		{compiling, "budget", "most `TIME` that a choice by cost searches, such as 500ms; unset means no bound", duration(&f.budget), f.applyBudget},
		{compiling, "plan", "decide as the plan in `FILE` says, which carve plan save wrote", text(&f.plan), f.applyPlan},
		{compiling, "recompute", "with --plan: compile anew, with a warning, where the plan does not fit", truth(&f.recompute), f.applyRecompute},
		{compiling, "in-place", "let an output lie in the place of an input, `INPUT=OUTPUT`: a cache that grows, whose length --open leaves open, is not copied then (repeatable)", repeatable(&f.inPlace), f.applyInPlace},
		{compiling, "hint", "`WHAT` to choose sessions and threads for: latency, the soonest end of a run; throughput, most runs a second; tuned, as tune --hint tuned found best for these", text(&f.hint), f.applyHint},
		{compiling, "threads", "most threads of a run, `N`; 0 means all cores", number(&f.threads), f.applyThreads},
		{compiling, "max-memory", "most memory of a run beside weights, inputs and outputs, in bytes or as `SIZE` such as 512MiB; unset means no bound", text(&f.maxMemory), f.applyMaxMemory},
		{compiling, "device-memory", "most memory of all runs on a device, `DEVICE=SIZE`, such as host=1GiB or cuda:0=512MiB (repeatable)", repeatable(&f.deviceMemory), f.applyDeviceMemory},
	}
}

// add defines the flags of these groups.
func (f *modelFlags) add(cmd *cobra.Command, groups flagGroup) {
	for _, x := range f.flags() {
		if groups&x.group != 0 {
			x.define(cmd, x.name, x.usage)
		}
	}
}

// apply puts the flags into options.
func (f *modelFlags) apply(o *carve.Options) error {
	for _, x := range f.flags() {
		if x.apply == nil {
			continue
		}
		if err := x.apply(o); err != nil {
			return err
		}
	}
	return nil
}

func repeatable(p *[]string) func(*cobra.Command, string, string) {
	return func(cmd *cobra.Command, name, usage string) { cmd.Flags().StringArrayVar(p, name, nil, usage) }
}

func commaList(p *[]string) func(*cobra.Command, string, string) {
	return func(cmd *cobra.Command, name, usage string) { cmd.Flags().StringSliceVar(p, name, nil, usage) }
}

func truth(p *bool) func(*cobra.Command, string, string) {
	return func(cmd *cobra.Command, name, usage string) { cmd.Flags().BoolVar(p, name, false, usage) }
}

func text(p *string) func(*cobra.Command, string, string) {
	return func(cmd *cobra.Command, name, usage string) { cmd.Flags().StringVar(p, name, "", usage) }
}

func duration(p *time.Duration) func(*cobra.Command, string, string) {
	return func(cmd *cobra.Command, name, usage string) { cmd.Flags().DurationVar(p, name, 0, usage) }
}

func number(p *int) func(*cobra.Command, string, string) {
	return func(cmd *cobra.Command, name, usage string) { cmd.Flags().IntVar(p, name, 0, usage) }
}

func (f *modelFlags) applyBackends(o *carve.Options) (err error) {
	if len(f.backends) == 0 && len(f.backendOptions) == 0 {
		return nil // cpu, or those of a bundle
	}
	o.Backends, err = f.configs()
	return err
}

func (f *modelFlags) applyPlugins(o *carve.Options) (err error) {
	o.Plugins = f.plugins
	o.PluginOptions, err = f.givenToPlugins()
	return err
}

func (f *modelFlags) applyDisabled(o *carve.Options) error {
	for _, s := range f.disabled {
		name, prop, ok := strings.Cut(s, ".")
		if !ok || name == "" || prop == "" {
			return fmt.Errorf("--disable-property %s: expected BACKEND.NAME", s)
		}
		if o.DisabledProperties == nil {
			o.DisabledProperties = map[string][]string{}
		}
		o.DisabledProperties[name] = append(o.DisabledProperties[name], prop)
	}
	return nil
}

func (f *modelFlags) applyStrict(o *carve.Options) error {
	o.Strict = f.strict
	return nil
}

func (f *modelFlags) applyPlacement(o *carve.Options) (err error) {
	if f.placement != "" {
		if o.Placement, err = carve.ParsePlacement(f.placement); err != nil {
			return fmt.Errorf("--placement %s: %w", f.placement, err)
		}
	}
	return nil
}

func (f *modelFlags) applyCache(o *carve.Options) error {
	o.Cache = f.cache
	return nil
}

func (f *modelFlags) applyBudget(o *carve.Options) error {
	if f.budget < 0 {
		return fmt.Errorf("--budget %v: must not be negative", f.budget)
	}
	o.Budget = f.budget
	return nil
}

func (f *modelFlags) applyPlan(o *carve.Options) (err error) {
	if f.plan != "" {
		if o.Plan, err = readPlan(f.plan); err != nil {
			return fmt.Errorf("--plan: %w", err)
		}
	}
	return nil
}

func (f *modelFlags) applyRecompute(o *carve.Options) error {
	if f.recompute && f.plan == "" {
		return errors.New("--recompute is for --plan, which is missing")
	}
	o.Recompute = f.recompute
	return nil
}

func (f *modelFlags) applyInPlace(o *carve.Options) error {
	for _, s := range f.inPlace {
		in, out, ok := strings.Cut(s, "=")
		if !ok || in == "" || out == "" {
			return fmt.Errorf("--in-place %s: expected INPUT=OUTPUT", s)
		}
		if _, twice := o.InPlace[in]; twice {
			return fmt.Errorf("--in-place %s: %s is given twice", s, in)
		}
		if o.InPlace == nil {
			o.InPlace = map[string]string{}
		}
		o.InPlace[in] = out
	}
	return nil
}

func (f *modelFlags) applyThreads(o *carve.Options) error {
	if f.threads < 0 {
		return fmt.Errorf("--threads %d: must not be negative", f.threads)
	}
	o.Threads = f.threads
	return nil
}

func (f *modelFlags) applyMinNodes(o *carve.Options) error {
	if f.minNodes < 0 {
		return fmt.Errorf("--min-nodes %d: must not be negative", f.minNodes)
	}
	o.MinNodes = f.minNodes
	return nil
}

func (f *modelFlags) applyDisconnected(o *carve.Options) error {
	o.Disconnected = f.disconnected
	return nil
}

func (f *modelFlags) applyMaxMemory(o *carve.Options) error {
	if f.maxMemory == "" {
		return nil
	}
	n, err := parseSize(f.maxMemory)
	if err != nil {
		return fmt.Errorf("--max-memory %s: %w", f.maxMemory, err)
	}
	o.MaxArenaBytes = n
	return nil
}

func (f *modelFlags) applyDeviceMemory(o *carve.Options) error {
	for _, s := range f.deviceMemory {
		name, size, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("--device-memory %s: expected DEVICE=SIZE", s)
		}
		n, err := parseSize(size)
		if err != nil {
			return fmt.Errorf("--device-memory %s: %w", s, err)
		}
		if _, twice := o.DeviceLimits[name]; twice {
			return fmt.Errorf("--device-memory %s: %s is given twice", s, name)
		}
		if o.DeviceLimits == nil {
			o.DeviceLimits = map[string]int64{}
		}
		o.DeviceLimits[name] = n
	}
	return nil
}
