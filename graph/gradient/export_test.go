package gradient

// The tables, for specs.
var (
	Rules       = rules
	Definitions = definitions
)
