//go:build !nonative

package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	_ "github.com/carve-dev/carve/backend/cuda" // native backends make the program a dynamic one
	_ "github.com/carve-dev/carve/backend/mkl"
	_ "github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
)

// nativeCommands are about native backends.
func (a *app) nativeCommands() []*cobra.Command {
	cmd := ofCommands(&cobra.Command{
		Use:   "plugin",
		Short: "For authors of plugins: the C header, digests of schemas, and the compliance suite",
	})
	cpp := false
	header := &cobra.Command{
		Use:   "header",
		Short: "Prints carve_plugin.h, which a plugin is compiled with",
		Args:  asUsed,
		RunE: func(*cobra.Command, []string) error {
			text := plugin.Header
			if cpp {
				text = plugin.HeaderCPP
			}
			_, err := fmt.Fprint(a.stdout, text)
			return err
		},
	}
	header.Flags().BoolVar(&cpp, "cpp", false, "print carve_plugin.hpp instead, which plugins in C++ may use beside it")
	cmd.AddCommand(header, &cobra.Command{
		Use:   "digest OPERATOR VERSION [DOMAIN]",
		Short: "Prints the digest of an operator's schema, for carve_op",
		Args:  asUsed,
		RunE:  func(_ *cobra.Command, args []string) error { return a.digest(args) },
	})
	cmd.AddCommand(a.pluginCheckCommand())
	host := &cobra.Command{
		Use:    plugin.HostCommand,
		Short:  "Runs a plugin for another program, which starts it",
		Hidden: true,
		Args:   asUsed,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("%s is started by programs that have plugins run out of process, not by hand", plugin.HostCommand)
		},
	}
	return []*cobra.Command{cmd, host}
}

// HostPlugin runs a plugin where the process was started for that, and does not return then. main calls it first.
func HostPlugin() { plugin.HostMain() }

func (a *app) digest(args []string) error {
	version, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("version %q is no number", args[1])
	}
	domain := ""
	if len(args) == 3 && args[2] != "ai.onnx" {
		domain = args[2]
	}
	s := graph.LookupSchema(domain, args[0], version)
	if s == nil {
		return fmt.Errorf("there is no operator %q at version %d of the operator set %q", args[0], version, domain)
	}
	_, err = fmt.Fprintf(a.stdout, "%#016x  %s, since version %d\n", plugin.Digest(s), args[0], s.Since)
	return err
}
