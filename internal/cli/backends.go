package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/units"
)

func (a *app) backendsCommand() *cobra.Command {
	f := &modelFlags{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "backends",
		Short: "Lists the backends that this program knows, and which are available here",
		Args:  asUsed,
		RunE:  func(*cobra.Command, []string) error { return a.backends(f, asJSON) },
	}
	cmd.Flags().StringArrayVar(&f.backendOptions, "backend-option", nil, "option of a backend, `BACKEND.KEY=VALUE` (repeatable)")
	cmd.Flags().StringArrayVar(&f.plugins, "plugin", nil, "vendor's `library`, or folder of libraries, to list as well (repeatable)")
	cmd.Flags().StringArrayVar(&f.pluginOptions, "plugin-option", nil, "option of all plugins, `KEY=VALUE` (repeatable)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// backendReport is one backend, of several devices one of them, and its JSON. Reason says why it is not available.
type backendReport struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Version   string `json:"version"`
	Processor string `json:"processor"`
	Memory    int64  `json:"memory,omitempty"` // of the device, in bytes; 0 for the host's
	Path      string `json:"path"`
	Reason    string `json:"reason"`
	// Components are libraries that the backend uses beside its own where they are found.
	Components []backend.Component `json:"components,omitempty"`
	// Operators, Properties and Passes are what a library brings beside processors: an entry without a name has them.
	Operators  []string `json:"operators,omitempty"`
	Properties []string `json:"properties,omitempty"`
	Passes     []string `json:"passes,omitempty"`
}

// devicesOf reports a backend on each of its devices. What it uses beside its own library is told with the first.
func devicesOf(name string, b backend.Backend) []backendReport {
	report := func(name string, i backend.Info) backendReport {
		return backendReport{Name: name, Available: true, Version: i.Version, Processor: i.Processor, Memory: i.Memory, Path: i.Path}
	}
	first := report(name, b.Info())
	first.Components = b.Info().Components
	list := []backendReport{first}
	if p, ok := b.(backend.Placeable); ok {
		for k, d := range b.Devices()[1:] {
			if other, err := p.On(d.ID()); err == nil {
				list = append(list, report(fmt.Sprintf("%s:%d", name, k+1), other.Info()))
				_ = other.Close() // there is nobody whom it serves
			}
		}
	}
	return list
}

// brings returns what a library brings beside processors; false where that is nothing.
func brings(l *backend.Library) (backendReport, bool) {
	r := backendReport{Available: true, Version: l.Version, Path: l.Path}
	for _, o := range l.Operators {
		upto := ""
		if o.Until > 0 {
			upto = fmt.Sprintf(" to %d", o.Until)
		}
		r.Operators = append(r.Operators, fmt.Sprintf("%v since %d%s", graph.Op{Domain: o.Schema.Domain, Name: o.Schema.Name}, o.Schema.Since, upto))
	}
	for _, p := range l.Properties {
		name := p.Property.Name()
		if p.Backend != "" {
			name = p.Backend + "." + name
		}
		r.Properties = append(r.Properties, name)
	}
	for _, p := range l.Passes {
		where := " after " + p.After
		if p.Before != "" {
			where = " before " + p.Before
		}
		r.Passes = append(r.Passes, p.Name+where)
	}
	return r, len(r.Operators)+len(r.Properties)+len(r.Passes) > 0
}

// printBrought prints what a library brings beside processors.
func (a *app) printBrought(r backendReport) {
	for _, x := range []struct {
		what string
		list []string
	}{{"operator", r.Operators}, {"property", r.Properties}, {"pass", r.Passes}} {
		for _, name := range x.list {
			fmt.Fprintf(a.stdout, "%s brings %s %s\n", r.Path, x.what, name)
		}
	}
}

// printComponents prints which libraries a backend uses beside its own, and why not others.
func (a *app) printComponents(r backendReport) {
	for _, c := range r.Components {
		what := strings.TrimSpace(c.Name + " " + c.Version)
		if c.Unused == "" {
			fmt.Fprintf(a.stdout, "%s uses %s\n", r.Name, strings.TrimSpace(what+" "+c.Path))
		} else {
			fmt.Fprintf(a.stdout, "%s does not use %s: %s\n", r.Name, what, oneLine(c.Unused))
		}
	}
}

func (a *app) backends(f *modelFlags, asJSON bool) error {
	asked, err := optionsOf(f.backendOptions)
	if err != nil {
		return err
	}
	given, err := f.givenToPlugins()
	if err != nil {
		return err
	}
	libraries, refused, err := backend.Libraries(given, asked, f.plugins...)
	if err != nil {
		return err
	}
	names, drivers := backend.Names(), map[string]backend.Driver{}
	for _, l := range libraries {
		for _, p := range l.Processors {
			names = append(names, p.Name)
			drivers[p.Name] = p.Driver
		}
	}
	configs := map[string]map[string]string{}
	for _, c := range asked {
		if !slices.Contains(names, c.Name) {
			return fmt.Errorf("--backend-option %s: %w (known: %s)", c.Name, backend.ErrUnknown, strings.Join(names, ", "))
		}
		configs[c.Name] = c.Options
	}
	list := []backendReport{}
	for _, name := range names {
		open := drivers[name]
		if open == nil {
			open = backend.Open
		}
		b, err := open(backend.Config{Name: name, Options: configs[name]})
		if err != nil {
			list = append(list, backendReport{Name: name, Reason: oneLine(err.Error())})
			continue
		}
		list = append(list, devicesOf(name, b)...)
		if err := b.Close(); err != nil {
			return err
		}
	}
	for _, l := range libraries {
		if r, some := brings(l); some {
			list = append(list, r)
		}
	}
	for _, r := range refused {
		list = append(list, backendReport{Path: r.Path, Reason: oneLine(r.Err.Error())})
	}
	if asJSON {
		return writeJSON(a.stdout, list)
	}
	return a.printBackends(list)
}

func (a *app) printBackends(list []backendReport) error {
	t := newTable(a.stdout)
	row(t, "name", "available", "version", "processor", "memory", "path")
	for _, r := range list {
		if r.Available && r.Name == "" {
			continue
		}
		available := "no"
		if r.Available {
			available = "yes"
		}
		memory := ""
		if r.Memory > 0 {
			memory = units.Bytes(r.Memory)
		}
		row(t, r.Name, available, r.Version, r.Processor, memory, r.Path)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range list {
		switch {
		case r.Available:
			a.printBrought(r)
			a.printComponents(r)
		case r.Name == "":
			fmt.Fprintf(a.stdout, "%s is no plugin that can be used: %s\n", r.Path, r.Reason)
		default:
			fmt.Fprintf(a.stdout, "%s is not available: %s\n", r.Name, strings.TrimPrefix(r.Reason, unavailable(r.Name)))
		}
	}
	return nil
}

// unavailable is how errors of backends that are not available begin.
func unavailable(name string) string {
	return fmt.Sprintf("backend %s: %v: ", name, backend.ErrUnavailable)
}
