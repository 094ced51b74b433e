package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// asUsed has a command take the arguments that its Use names: "DIR…" stands for one or more, "[DOMAIN]" for none or one, and what
// follows a flag is the flag's. None is empty but one that may be left out.
func asUsed(cmd *cobra.Command, args []string) error {
	least, most := 0, 0
	for _, name := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(name, "-") {
			break
		}
		most++
		if strings.HasPrefix(name, "[") {
			continue
		}
		if least++; least > len(args) {
			return fmt.Errorf("%s is missing; usage: %s", name, cmd.UseLine())
		}
		list := args[least-1 : least]
		if strings.HasSuffix(name, "…") {
			list = args[least-1:]
		}
		if slices.Contains(list, "") {
			return fmt.Errorf("%s is empty; usage: %s", name, cmd.UseLine())
		}
		if strings.HasSuffix(name, "…") {
			return nil
		}
	}
	if len(args) > most {
		return fmt.Errorf("unexpected argument %q; usage: %s", args[most], cmd.UseLine())
	}
	return nil
}

// ofCommands makes cmd a command that has others and does nothing by itself: alone it prints its help.
func ofCommands(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q; %s --help lists the commands", args[0], cmd.CommandPath())
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// helpCommand is cobra's help, but for what there is no help for, which is an error here.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]…",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return fmt.Errorf("unknown command %q; %s --help lists the commands", rest[0], of.CommandPath())
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// flagFault says what a flag is to be.
func flagFault(cmd *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
	}
	if value := (*pflag.InvalidValueError)(nil); errors.As(err, &value) {
		f := value.GetFlag()
		if twice := (*twiceError)(nil); errors.As(err, &twice) {
			return fmt.Errorf("--%s is given twice: %q and %q", f.Name, twice.first, twice.second)
		}
		switch f.Value.Type() {
		case "int", "int64", "uint":
			return fmt.Errorf("--%s %s: expected a whole number", f.Name, value.GetValue())
		case "duration":
			return fmt.Errorf("--%s %s: expected a time such as 500ms, 3s or 1m30s", f.Name, value.GetValue())
		}
	}
	return err
}

// once has every flag of cmd, and of its commands, that holds one text, such as the name of a file, turn down a second, which would take
// the place of the first unsaid. A number may be given again.
func once(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "string" {
			f.Value = &single{Value: f.Value}
		}
	})
	for _, c := range cmd.Commands() {
		once(c)
	}
}

// single is the value of a flag that is given once.
type single struct {
	pflag.Value
	given *string
}

func (s *single) Set(text string) error {
	if s.given != nil {
		return &twiceError{*s.given, text}
	}
	if err := s.Value.Set(text); err != nil {
		return err
	}
	s.given = &text
	return nil
}

// twiceError says that a flag that may be given once has two values.
type twiceError struct{ first, second string }

func (e *twiceError) Error() string { return fmt.Sprintf("given twice: %q and %q", e.first, e.second) }
