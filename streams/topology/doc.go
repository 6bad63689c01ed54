// Package topology turns a description of steps into sub-topologies that tasks can run.
//
// # Path
//
//	Builder.Source, Table, Process, KeyBy, Join, Aggregate, Sink    one node each
//	Builder.Build -> cut at every KeyBy -> Sub per connected part   sources, steps, stores, topics
//	task.NewCore(sub, partition)                                    one task per sub and partition
//
// # Invariants
//
//   - Ids are the user's and are stable: stores, internal topics and sub-topologies are named by
//     them, so a change elsewhere in the pipeline moves no state.
//   - Nodes of a Sub are in an order in which every node comes after its inputs. The order depends
//     on the calls made to the Builder alone.
//   - All co-partitioned inputs of a Sub have the same number of partitions.
//   - A Topology does not change after Build and may be shared by goroutines.
package topology
