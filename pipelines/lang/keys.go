package lang

// keyText is what the language says about one key.
type keyText struct {
	doc   string // one sentence, for editors and the reference
	later string // not empty: known, but not supported yet; what to do instead
}

// keyTexts has a row for every key of the language: object.key.
var keyTexts = map[string]keyText{
	"Pipeline.version":  {doc: "language version, 1"},
	"Pipeline.pipeline": {doc: "name, unique in a cluster"},
	"Pipeline.include": {doc: "files whose vars, plugins, schemas and templates this one has, too; " +
		"what is here wins"},
	"Pipeline.vars":      {doc: "constants; --var name=value overrides one"},
	"Pipeline.plugins":   {doc: "operator plugins by alias"},
	"Pipeline.schemas":   {doc: "types of values, for checking"},
	"Pipeline.templates": {doc: "steps with parameters, for  use:"},
	"Pipeline.sources":   {doc: "where records come from, by id"},
	"Pipeline.tables":    {doc: "latest value per key, for joins, by id"},
	"Pipeline.steps":     {doc: "what happens to the records, in order"},
	"Pipeline.sinks":     {doc: "where records go, by id"},
	"Pipeline.guarantee": {doc: "delivery guarantee asked for"},
	"Pipeline.on_end":    {doc: "what the end of a bounded source does to open windows"},
	"Pipeline.on_error":  {doc: "what happens to a record that fails"},
	"Pipeline.resources": {doc: "parallelism, memory and commit interval"},
	"Pipeline.tests":     {later: "test the pipeline by running it on a file"},

	"shorthand.version":  {doc: "language version, 1"},
	"shorthand.pipeline": {doc: "name, unique in a cluster"},
	"shorthand.from":     {doc: "topic to read, values are JSON"},
	"shorthand.filter":   {doc: "records to keep"},
	"shorthand.map":      {doc: "the new value"},
	"shorthand.to":       {doc: "topic to write"},
	"shorthand.on_error": {doc: "what happens to a record that fails"},

	"PluginDecl.source":    {doc: "a folder of Go source, or an installed plugin's name"},
	"PluginDecl.version":   {later: "a plugin built from a folder needs no version"},
	"PluginDecl.isolation": {later: "every plugin runs in a process of its own"},
	"PluginDecl.limits":    {doc: "what the plugin's process may take"},

	"PluginLimits.memory": {doc: "memory the plugin's Go runtime aims to stay under"},
	"PluginLimits.cpu":    {later: "only memory can be limited"},

	"Schema.fields":   {doc: "fields by name, with their types"},
	"Schema.registry": {later: "write the fields down under fields:"},
	"Schema.file":     {later: "write the fields down under fields:"},

	"Source.topic": {doc: "topic the records are in; a connector fills it"},
	"Source.topics": {doc: "topics the records are in, instead of topic:, by their names or by a " +
		"regular expression for whole names, which finds new ones, too; they are one stream, in " +
		"event-time order"},
	"Source.connector": {doc: "connector that fills the topic"},
	"Source.config":    {doc: "the connector's settings"},
	"Source.key": {doc: "format of the keys; with a connector also an expression " +
		"that makes the key"},
	"Source.value":        {doc: "format of the values"},
	"Source.start":        {doc: "where to begin without a stored position"},
	"Source.event_time":   {doc: "when the record happened; its own timestamp if absent"},
	"Source.max_lateness": {doc: "how far records may be out of order and still be in time"},
	"Source.idle_after": {doc: "time without records after which nobody waits for a partition; " +
		"without it, the others wait"},
	"Source.max_skew": {doc: "how far a partition may be read ahead of the slowest one, " +
		"in event time"},
	"Source.on_bad_time": {doc: "what happens to a record whose event time cannot be told; " +
		"partition_time gives it the latest of its partition"},
	"Source.renamed_from": {doc: "earlier ids of the source, the first one last: state, positions " +
		"and topics have that name"},
	"Source.partitions": {doc: "partitions of a topic that is created here"},
	"Source.on_end":     {doc: "what the end of this source does to open windows"},

	"Table.topic": {doc: "compacted topic with the rows"},
	"Table.from":  {doc: "source or step with the rows, instead of topic"},
	"Table.key":   {doc: "format of the keys"},
	"Table.value": {doc: "format of the rows"},
	"Table.renamed_from": {doc: "earlier ids of the table, the first one last: its rows have that " +
		"name"},
	"Table.retention":   {later: "rows are kept until their key is deleted"},
	"Table.lookup_only": {doc: "true: rows count as they arrive, no join may be as_of: event_time"},
	"Table.global": {doc: "true: every task keeps all rows, so that joins by any expression need " +
		"not move records"},
	"Table.idle_after": {doc: "time without records after which nobody waits for a partition of " +
		"the topic; without it, the others wait"},
	"Table.history": {doc: "how long rows that were replaced are kept, for joins as of event " +
		"time"},
	"Table.out_of_order": {doc: "what a row does that is older than the one it would replace: " +
		"apply takes it, ignore keeps the newer one"},

	"Sink.from":      {doc: "source, step or branch to write; the last step if absent"},
	"Sink.topic":     {doc: "topic to write"},
	"Sink.connector": {doc: "connector to write with, instead of topic"},
	"Sink.config":    {doc: "the connector's settings"},
	"Sink.key":       {doc: "the key to write; the record's own if absent"},
	"Sink.value":     {doc: "the value to write; the record's own if absent"},
	"Sink.shared":    {doc: "true: other pipelines may write the topic, too"},
	"Sink.batch":     {later: "the connector's own batching applies"},
	"Sink.in_flight": {later: "writes are in order, one batch at a time"},
	"Sink.on_replay": {later: "a replay writes to outputs of its own"},
	"Sink.on_error":  {doc: "what happens to a record that fails here"},

	"OnError.retry":    {doc: "how often a transient failure is tried again"},
	"OnError.then":     {doc: "what happens to a record that failed"},
	"OnError.dlq":      {doc: "dead-letter topic"},
	"OnError.by_class": {doc: "what happens, by class of failure"},

	"Retry.max":     {doc: "tries after the first"},
	"Retry.backoff": {doc: "first and longest wait, as 100ms..30s"},

	"Resources.parallelism":     {later: "a worker runs one task per partition"},
	"Resources.memory":          {later: "a task reads at most 16 MiB ahead"},
	"Resources.buffer":          {later: "a task reads at most 16 MiB ahead"},
	"Resources.standby":         {doc: "workers that keep a copy of the state of another's task"},
	"Resources.commit_interval": {doc: "how often positions and state are committed"},

	"Step.id":           {doc: "name of the step; needed where state is kept"},
	"Step.renamed_from": {doc: "earlier ids of the step, the first one last: its state has that name"},
	"Step.from":         {doc: "sources, steps or branches to read; the step before if absent"},
	"Step.filter":       {doc: "records to keep: a condition"},
	"Step.map":          {doc: "a new value"},
	"Step.set":          {doc: "fields to set in the value, by path"},
	"Step.unset":        {doc: "fields to remove from the value, by path"},
	"Step.flat_map":     {doc: "a list; each item becomes a record"},
	"Step.key_by": {doc: "a new key; records move to the key's partition. As {key:, null_key:} also " +
		"what happens to records whose key is null"},
	"Step.branch":      {doc: "where records go: the first condition that holds"},
	"Step.merge":       {doc: "sources, steps or branches to read as one, in event-time order"},
	"Step.route":       {doc: "the topic each record goes to, as orders-{{ value.country }}"},
	"Step.dedupe":      {doc: "only the first record of a key within a span of time"},
	"Step.join":        {doc: "adds the row of a table, or a record of another stream"},
	"Step.aggregate":   {doc: "one result per key and window"},
	"Step.reduce":      {doc: "one value per key and window, made by an expression"},
	"Step.plugin":      {doc: "an operator written in Go"},
	"Step.log":         {doc: "a line in the log for each record"},
	"Step.throttle":    {doc: "at most so many records per span of event time"},
	"Step.use":         {doc: "a template, whose steps stand here"},
	"Step.with":        {doc: "the parameters of the template"},
	"Step.on_error":    {doc: "what happens to a record that fails here"},
	"Step.parallelism": {later: "a worker runs one task per partition"},

	"StepTemplate.params": {doc: "parameters by name"},
	"StepTemplate.steps":  {doc: "the steps; ${param:name} stands for a parameter"},

	"Param.type":    {doc: "what an argument must be; expr and path may stand in expressions"},
	"Param.default": {doc: "the argument where a use gives none"},
	"Param.doc":     {doc: "what the parameter is for"},

	"Arm.when": {doc: "a condition"},
	"Arm.else": {doc: "true: the records for which no condition held"},
	"Arm.as":   {doc: "id of the stream that goes out here"},

	"Join.table":   {doc: "table to look into"},
	"Join.stream":  {doc: "source, step or branch whose records are joined, instead of table"},
	"Join.on":      {doc: "the key by which records are joined"},
	"Join.with_on": {doc: "the key of the other stream's records; the same expression if absent"},
	"Join.within": {doc: "how far apart in event time records may be: 15m, or " +
		"{before: 5m, after: 5m, grace: 30s}"},
	"Join.as": {doc: "name of the row, or other record's value, in the steps that follow; " +
		"the table's or stream's id if absent"},
	"Join.type": {doc: "inner drops what has no match, left keeps it with a null, outer keeps " +
		"both sides"},
	"Join.late": {doc: "what happens to a record whose time is over"},
	"Join.as_of": {doc: "latest takes the row as it is when the record is read; event_time the one " +
		"that held at the record's time, and a replay gives the same"},
	"Join.grace":   {doc: "how long a record waits, in event time, for rows that come late"},
	"Join.missing": {doc: "what happens to a record without a row in an inner join"},

	"Aggregate.by":             {doc: "the key of the group; the record's own key if absent"},
	"Aggregate.window":         {doc: "what one result is made of; all records of a key if absent"},
	"Aggregate.fields":         {doc: "the result's fields, in the order they are written"},
	"Aggregate.emit":           {doc: "when a result comes out"},
	"Aggregate.grace":          {doc: "how long a window stays open after its end"},
	"Aggregate.late":           {doc: "what happens to a record whose window is closed"},
	"Aggregate.emit_unchanged": {doc: "false leaves out a result that is the same as before"},
	"Aggregate.ttl": {doc: "how long a key without windows of time is kept after its last " +
		"record, in event time"},
	"Aggregate.unbounded": {doc: "true: keys without windows of time are kept for ever"},

	"Reduce.by":             {doc: "the key of the group; the record's own key if absent"},
	"Reduce.window":         {doc: "what one result is made of; all records of a key if absent"},
	"Reduce.init":           {doc: "the value before the first record"},
	"Reduce.update":         {doc: "the value with one more record; acc is the one before"},
	"Reduce.merge":          {doc: "acc and other, the value of a later window, in one"},
	"Reduce.emit":           {doc: "when a result comes out"},
	"Reduce.emit_unchanged": {doc: "false leaves out a result that is the same as before"},
	"Reduce.grace":          {doc: "how long a window stays open after its end"},
	"Reduce.late":           {doc: "what happens to a record whose window is closed"},
	"Reduce.ttl": {doc: "how long a key without windows of time is kept after its last " +
		"record, in event time"},
	"Reduce.unbounded": {doc: "true: keys without windows of time are kept for ever"},

	"Dedupe.key":    {doc: "what is equal in records that are the same; the new key of what is left"},
	"Dedupe.within": {doc: "how long a key is remembered after it was first seen, in event time"},

	"Throttle.rate": {doc: "how many records per span of event time, as 100/s"},
	"Throttle.key":  {doc: "what each rate is for; the task's partition if absent"},
	"Throttle.over": {doc: "what happens to the records above the rate"},

	"Window.tumbling": {doc: "length of windows that follow each other"},
	"Window.hopping":  {doc: "windows that overlap"},
	"Window.session":  {doc: "longest gap between two records of a window"},
	"Window.sliding":  {doc: "longest span between the first and the last record of a window"},
	"Window.count":    {doc: "records in a window"},
	"Window.offset":   {doc: "how far windows are shifted from the epoch"},

	"Hopping.size":  {doc: "length of a window"},
	"Hopping.every": {doc: "distance between the starts of two windows"},

	"PluginUse.use":    {doc: "alias of the plugin, or alias/operator"},
	"PluginUse.config": {doc: "the operator's settings"},
}
