package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve/backend"
)

func (a *app) backendsCommand() *cobra.Command {
	var options, plugins []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "backends",
		Short: "Lists the backends that this program knows, and which are available here",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.backends(options, plugins, asJSON) },
	}
	cmd.Flags().StringArrayVar(&options, "backend-option", nil, "option of a backend, `BACKEND.KEY=VALUE` (repeatable)")
	cmd.Flags().StringArrayVar(&plugins, "plugin", nil, "vendor's `library`, or folder of libraries, to list as well (repeatable)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// backendReport is one backend, and its JSON. Reason says why it is not available.
type backendReport struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Version   string `json:"version"`
	Processor string `json:"processor"`
	Path      string `json:"path"`
	Reason    string `json:"reason"`
}

func (a *app) backends(options, plugins []string, asJSON bool) error {
	processors, refused, err := backend.Plugins(plugins...)
	if err != nil {
		return err
	}
	names, drivers := backend.Names(), map[string]backend.Driver{}
	for _, p := range processors {
		names = append(names, p.Name)
		drivers[p.Name] = p.Driver
	}
	configs := map[string]map[string]string{}
	for _, s := range options {
		name, key, value, err := cutOption(s)
		if err != nil {
			return err
		}
		if !slices.Contains(names, name) {
			return fmt.Errorf("--backend-option %s: %w (known: %s)", s, backend.ErrUnknown, strings.Join(names, ", "))
		}
		if configs[name] == nil {
			configs[name] = map[string]string{}
		}
		configs[name][key] = value
	}
	list := []backendReport{}
	for _, name := range names {
		r := backendReport{Name: name}
		open := drivers[name]
		if open == nil {
			open = backend.Open
		}
		b, err := open(backend.Config{Name: name, Options: configs[name]})
		if err != nil {
			r.Reason = oneLine(err.Error())
		} else {
			i := b.Info()
			r.Available, r.Version, r.Processor, r.Path = true, i.Version, i.Processor, i.Path
			if err := b.Close(); err != nil {
				return err
			}
		}
		list = append(list, r)
	}
	for _, r := range refused {
		list = append(list, backendReport{Path: r.Path, Reason: oneLine(r.Err.Error())})
	}
	if asJSON {
		return writeJSON(a.stdout, list)
	}
	t := newTable(a.stdout)
	row(t, "name", "available", "version", "processor", "path")
	for _, r := range list {
		available := "no"
		if r.Available {
			available = "yes"
		}
		row(t, r.Name, available, r.Version, r.Processor, r.Path)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range list {
		switch {
		case r.Available:
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
