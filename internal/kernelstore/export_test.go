package kernelstore

// Of the files.
var (
	Encode = encode
	Decode = decode
)

// MostIdle is mostIdle.
const MostIdle = mostIdle
