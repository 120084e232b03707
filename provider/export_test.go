package provider

// What Open("auto") chooses by.
var (
	LeadsTo   = leadsTo
	SourceFor = sourceFor
)
