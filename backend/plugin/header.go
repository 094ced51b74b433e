package plugin

import _ "embed"

// HeaderCPP is carve_plugin.hpp, which plugins in C++11 may use beside Header: it turns exceptions into errors of the interface.
//
//go:embed carve_plugin.hpp
var HeaderCPP string
