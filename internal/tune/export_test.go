package tune

// What specs of this package's behaviour need beside the exported names.
var (
	TakenBy = taken
	Waited  = waited
)
