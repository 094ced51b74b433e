//go:build nonative

package cli

import "github.com/spf13/cobra"

// nativeCommands returns none: the program has no native backends.
func (a *app) nativeCommands() []*cobra.Command { return nil }

// HostPlugin does nothing: the program opens no plugins.
func HostPlugin() {}
