package provider

// LeadsTo and SourceFor are the functions with which Open("auto") chooses a provider.
var (
	LeadsTo   = leadsTo
	SourceFor = sourceFor
)
