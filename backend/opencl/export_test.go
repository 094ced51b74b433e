package opencl

// Of the cache's files.
var (
	EncodeBinary = encodeBinary
	DecodeBinary = decodeBinary
)
