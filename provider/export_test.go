package provider

// LeadsTo and SourceFor decide what Open("auto") opens.
var (
	LeadsTo   = leadsTo
	SourceFor = sourceFor
)
