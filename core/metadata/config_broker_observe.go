package metadata

// observeConfigs are this project's own: Kafka has no such settings.
var observeConfigs = []*ConfigDef{
	setting("slow.request.log.threshold.ms", Long, "1000",
		"A request that takes the broker longer is logged; -1 logs none. Waiting for new records or "+
			"other members does not count.").atLeast(-1).dynamic(),
	setting("metrics.series.max", Int, "100000",
		"Most partitions, and most committed offsets, that /metrics tells one by one; of more, only "+
			"the sums.").atLeast(0).dynamic(),
}
