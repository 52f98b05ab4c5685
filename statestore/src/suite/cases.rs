//! The list of all cases, once, and the test that none is forgotten.

/// Runs every case of the store suite against a store, each as a test of its own. `$harness` is an expression that makes
/// a [`Harness`](crate::suite::Harness); every test evaluates it anew.
///
/// The tests stand in modules by concern: `cargo test append::` runs those about appending. The crate that uses the
/// macro needs tokio with its macros and its multi-threaded runtime.
#[macro_export]
macro_rules! store_suite {
    ($harness:expr) => {
        $crate::store_suite! { @list tests [$harness] }
    };
    // Hands the list to another rule: the only place where the cases stand.
    (@list $rule:ident [$($given:tt)*]) => {
        $crate::store_suite! {
            @$rule [$($given)*]
            append {
                places_count_from_one_without_gaps
                places_of_one_run_do_not_depend_on_another
                the_store_fills_in_the_envelope
                every_type_is_read_back_as_it_was_appended
                appending_again_returns_the_stored_events
                a_repeat_with_other_content_is_given_the_stored_content
                a_repeat_within_one_call_is_one_event
                an_attempt_ends_once
                another_attempt_has_an_end_of_its_own
                a_signal_is_decided_once
                what_comes_after_the_end_of_an_attempt_is_given_the_end
                a_repeated_start_after_the_end_of_its_attempt_stores_nothing
                taken_and_fresh_events_in_one_call_stand_alone
                a_call_without_events_stores_nothing
                a_call_may_carry_many_events
                what_was_acknowledged_is_there_after_reopening
            }
            decision {
                decisions_on_the_latest_view_are_stored
                a_decision_may_carry_worker_events
                worker_events_meanwhile_are_no_conflict
                another_number_of_decisions_is_a_conflict
                effects_of_a_signal_need_the_latest_view
                a_taken_key_keeps_the_whole_decision_out
                a_taken_slot_keeps_the_whole_decision_out
                deciding_again_after_a_conflict_is_taken
                a_decision_that_comes_again_is_told_with_its_own_events
                a_decision_that_contradicts_itself_stores_nothing
                a_conflict_tells_every_event_that_was_not_folded
                after_the_end_a_driver_is_refused_or_told
                a_run_ends_once
                within_one_decision_only_audit_follows_the_end
                every_pause_is_an_event_of_its_own
            }
            refusal {
                one_invalid_event_refuses_the_whole_call
                invalid_calls_leave_concurrent_ones_alone
                an_event_over_the_limit_is_refused
                a_decision_that_is_appended_as_a_worker_event_is_refused
                after_the_end_only_audit_events_are_taken
                a_repeat_after_the_end_is_given_the_stored_event
                an_old_fence_is_refused
                a_run_of_another_tenant_is_not_found
            }
            racing {
                sixteen_writers_on_one_run
                sixteen_writers_on_one_run_through_two_handles
                sixteen_writers_on_many_runs
                two_writers_race_for_one_slot
                sixteen_writers_race_for_one_slot
                racing_decisions_are_stored_once
                drivers_and_workers_write_at_once
                nothing_slips_in_behind_the_end_of_a_run
                racing_starts_make_one_run
                racing_starts_of_different_identities_make_a_run_each
                writers_that_give_up_leave_a_sound_log
            }
            long {
                what_a_long_run_has_taken_is_given_back
                the_end_of_an_attempt_closes_it_in_a_long_run
                a_long_run_takes_all_of_a_decision_or_nothing
                two_handles_write_to_a_long_run_in_turn
                writers_race_for_the_names_of_a_long_run
            }
            reading {
                pages_go_on_after_a_watermark
                extreme_pages_are_harmless
                the_log_of_another_tenant_is_not_found
            }
            tailing {
                a_tail_gives_what_is_there_and_then_what_comes
                a_tail_begins_after_its_watermark
                a_tail_may_begin_beyond_the_end
                a_tail_sees_what_another_handle_writes
                a_tail_misses_and_repeats_nothing_under_load
                extreme_pages_of_a_tail_are_harmless
                the_tail_of_another_tenant_is_not_found
            }
            resync {
                a_full_resync_gives_the_whole_log
                without_a_snapshot_a_resync_is_full
                a_resync_begins_at_the_latest_snapshot_that_is_old_enough
                many_snapshots_leave_resync_right
                a_reader_gets_back_in_step
                a_long_log_is_given_whole
                a_snapshot_over_the_limit_is_refused
                resync_of_another_tenant_is_not_found
            }
            runs {
                a_run_has_a_time_ordered_id
                a_run_begins_with_what_was_asked_for
                asking_again_returns_the_same_run
                asking_again_after_the_end_returns_the_same_run
                two_tenants_have_a_run_each
                a_stolen_identity_does_not_open_a_run
                another_tenants_run_is_not_found
                an_invalid_request_makes_no_run
            }
            record {
                a_new_run_is_pending
                the_record_follows_the_events
                every_end_has_its_status
            }
            listing {
                the_newest_run_comes_first
                a_tenant_sees_its_own_runs_only
                runs_are_found_by_status
                runs_are_found_by_plan
                runs_are_found_by_time
                pages_stay_whole_while_new_runs_are_made
                a_key_of_no_page_is_refused
                extreme_limits_are_harmless
            }
            retention {
                only_runs_that_ended_before_the_time_go
                runs_go_in_batches
                everything_of_a_run_goes_with_it
                a_run_with_events_in_the_outbox_stays
                a_source_stays_while_another_takes_outputs_from_it
                a_chain_of_sources_goes_from_its_end
                a_source_that_nobody_takes_outputs_from_goes
                the_source_of_an_archive_goes
            }
            plans {
                a_plan_is_found_by_its_hash
                content_of_another_hash_is_refused
                a_plan_that_nobody_kept_is_missing
                each_tenant_has_its_own_plans
                any_text_comes_back_as_it_was_kept
                a_plan_may_be_kept_by_many_at_once
            }
            leases {
                a_lease_excludes_others
                renewing_keeps_the_fence
                all_leases_of_a_holder_are_renewed_at_once
                an_expired_lease_goes_to_the_next_with_a_higher_fence
                a_released_lease_is_free_at_once
                releasing_with_an_old_fence_changes_nothing
                one_of_many_gets_the_lease
                an_unknown_run_has_no_lease
                a_very_long_lease_is_a_lease
                a_run_may_be_made_with_its_lease
            }
            claims {
                a_claim_excludes_others
                a_claim_is_renewed_and_expires
                a_claim_is_given_back_by_its_worker_only
                one_of_many_gets_the_claim
                an_unknown_run_has_no_claims
                sweeping_leaves_claims_that_run
                a_very_long_claim_is_a_claim
            }
            coordination {
                what_was_acted_on_never_goes_backwards
                acting_beyond_the_log_is_harmless
                a_run_that_nobody_acts_on_is_neglected
                neglect_counts_from_when_the_log_went_on
                an_end_that_nobody_acted_on_is_neglected
                neglected_runs_are_told_up_to_a_limit
                runs_without_a_lease_are_unattended
                a_run_is_identified_by_its_id_alone
            }
            inbox {
                signals_wait_in_the_order_they_came
                runs_that_signals_wait_for_are_known
                every_kind_of_signal_comes_out_as_it_went_in
                a_signal_that_comes_again_changes_nothing
                a_decision_in_the_log_empties_the_inbox
                a_decided_signal_is_taken_out
                a_decided_signal_does_not_come_back
                signals_that_come_at_once_all_wait
                a_signal_wakes_whoever_listens
                every_run_with_a_signal_is_told
                a_signal_of_another_tenant_goes_nowhere
            }
            checkpoints {
                a_checkpoint_is_recorded_in_the_log
                size_and_digest_are_of_the_content
                a_checkpoint_is_loaded_as_it_was_saved
                checkpoints_are_listed_newest_first
                the_same_id_again_changes_nothing
                one_id_saved_by_many_is_one_checkpoint
                an_ended_run_can_be_saved
                pruning_keeps_the_newest
                a_damaged_checkpoint_is_refused_and_the_one_before_offered
                a_checkpoint_over_the_limit_is_refused
                checkpoints_of_another_tenant_are_not_found
            }
            progress {
                the_newest_progress_of_each_step_counts
                progress_does_not_go_back
                a_new_attempt_begins_anew
                nonsense_does_not_displace_what_is_known
                progress_of_another_tenant_is_not_found
            }
            outbox {
                every_event_is_in_the_outbox
                what_was_not_stored_is_not_in_the_outbox
                acknowledged_events_are_gone
                acknowledging_again_is_harmless
                acknowledging_too_much_swallows_nothing
                a_busy_run_lets_the_others_have_their_turn
                what_waits_longest_comes_first
                a_claimed_run_is_nobody_elses
                an_expired_claim_is_handed_out_again
                a_late_acknowledgement_leaves_the_next_claim
                relays_that_claim_at_once_share_no_run
                relays_deliver_in_order_while_others_append
                extreme_claims_are_harmless
            }
            delivery {
                a_failed_event_blocks_its_run_until_its_time
                failures_are_counted_for_the_first_event
                the_failures_of_one_event_are_not_the_next_ones
                a_dead_letter_lets_the_next_events_go_on
                dead_letters_are_told_oldest_first
                dead_letters_are_replayed
                a_replayed_letter_comes_before_later_events
                letters_of_a_claimed_run_stay
                extreme_times_are_harmless
            }
            requests {
                an_answer_is_given_again
                the_first_answer_stands
                one_of_many_answers_stands
                keys_belong_to_a_tenant
                an_answer_expires
                sweeping_deletes_what_has_expired
                the_longest_key_is_a_key
                an_answer_over_the_limit_is_refused
            }
            hostile {
                any_text_in_the_envelope_comes_back
                any_text_in_a_payload_comes_back
                any_engine_reference_comes_back
                any_text_in_a_signal_comes_back
                any_name_of_a_holder_is_its_own
                any_name_of_a_relay_and_any_error_is_kept
                any_name_of_a_keeper_is_kept
                long_and_similar_identifiers_are_kept_apart
                every_number_comes_back
                a_deep_payload_comes_back
            }
            zero {
                inside_a_payload_it_comes_back
                an_event_whose_key_would_have_it_is_refused
                an_engine_reference_with_it_is_refused
                a_name_with_it_does_not_append
                a_name_with_it_makes_no_run
                a_name_with_it_holds_nothing
                a_name_with_it_gives_nothing_back
                an_error_with_it_is_kept
            }
        }
    };
    (@tests [$harness:expr] $($group:ident { $($case:ident)* })*) => {
        $(
            mod $group {
                #[allow(unused_imports)]
                use super::*;

                $(
                    #[::tokio::test(flavor = "multi_thread")]
                    async fn $case() {
                        let harness = $harness;
                        $crate::suite::$group::$case(&harness).await;
                    }
                )*
            }
        )*
    };
    (@names [] $($group:ident { $($case:ident)* })*) => {
        &[$((stringify!($group), include_str!(concat!(stringify!($group), ".rs")), &[$(stringify!($case)),*])),*]
    };
}

#[cfg(test)]
mod tests {
    /// Name, source and listed cases of every group.
    const GROUPS: &[(&str, &str, &[&str])] = store_suite!(@list names []);

    /// The cases that a file has.
    fn written(source: &str) -> Vec<&str> {
        source
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn ")?.split_once('(').map(|(name, _)| name))
            .collect()
    }

    #[test]
    fn every_case_is_in_the_list() {
        for (group, source, listed) in GROUPS {
            assert_eq!(written(source), *listed, "the cases of {group}");
        }
    }

    #[test]
    fn every_group_is_in_the_list() {
        let modules: Vec<&str> = include_str!("mod.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
            .filter(|module| *module != "clock")
            .collect();
        let mut groups: Vec<&str> = GROUPS.iter().map(|(group, _, _)| *group).collect();
        groups.sort_unstable();
        assert_eq!(modules, groups);
    }
}
