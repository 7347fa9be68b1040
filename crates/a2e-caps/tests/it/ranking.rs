//! How well tools are found: a thousand of them, and fifty questions as people ask them.

use a2e_caps::tool::{Definition, Index};
use serde_json::json;

/// Twenty services with ten things each; every thing can be dealt with in five ways.
#[rustfmt::skip]
const SERVICES: [(&str, &str, [&str; 10]); 20] = [
    ("github", "GitHub", ["issue", "pull_request", "branch", "release", "repository", "commit_comment", "milestone", "label", "webhook", "gist"]),
    ("slack", "Slack", ["message", "channel", "reminder", "emoji", "user_group", "bookmark", "canvas", "reaction", "pin", "status"]),
    ("jira", "Jira", ["ticket", "sprint", "epic", "worklog", "board", "component", "filter", "dashboard", "version", "attachment"]),
    ("calendar", "Google Calendar", ["event", "invitation", "calendar", "availability", "recurring_meeting", "room", "notification", "out_of_office", "color", "access_rule"]),
    ("mail", "Gmail", ["draft", "email", "thread", "mailbox_label", "mail_filter", "signature", "forwarding_address", "vacation_reply", "delegate", "email_attachment"]),
    ("drive", "Google Drive", ["file", "folder", "permission", "shared_drive", "revision", "shortcut", "comment", "export", "file_label", "approval"]),
    ("stripe", "Stripe", ["charge", "refund", "customer", "invoice", "subscription", "coupon", "payout", "dispute", "price", "payment_link"]),
    ("shopify", "Shopify", ["product", "order", "collection", "discount_code", "inventory_level", "fulfillment", "gift_card", "theme", "blog_article", "draft_order"]),
    ("aws_s3", "Amazon S3", ["bucket", "object", "lifecycle_policy", "multipart_upload", "bucket_policy", "replication_rule", "access_point", "object_tag", "inventory_report", "encryption_setting"]),
    ("kubernetes", "Kubernetes", ["pod", "deployment", "service_endpoint", "config_map", "namespace", "cron_job", "ingress", "persistent_volume", "node", "secret"]),
    ("postgres", "PostgreSQL", ["table", "row", "view", "database_index", "schema", "stored_function", "trigger", "database_role", "backup", "extension"]),
    ("salesforce", "Salesforce", ["lead", "opportunity", "account", "contact", "campaign", "case", "quote", "contract", "task", "report"]),
    ("zendesk", "Zendesk", ["support_request", "macro", "help_article", "satisfaction_rating", "agent_group", "sla_policy", "view_filter", "organization", "chat_transcript", "suspended_request"]),
    ("spotify", "Spotify", ["playlist", "track", "album", "podcast_episode", "artist", "queue_item", "device", "audiobook", "saved_show", "listening_history"]),
    ("weather", "the weather service", ["forecast", "storm_alert", "weather_station", "rainfall_record", "air_quality_reading", "sunrise_time", "wind_map", "pollen_count", "tide_table", "climate_average"]),
    ("maps", "the map service", ["route", "place_review", "address", "distance_matrix", "saved_place", "traffic_report", "street_photo", "geofence", "elevation_profile", "transit_schedule"]),
    ("hr", "the staff system", ["employee", "leave_request", "payslip", "job_posting", "applicant", "performance_review", "shift", "training_course", "expense_claim", "timesheet"]),
    ("travel", "the travel agency", ["flight", "hotel_booking", "car_rental", "itinerary", "visa_requirement", "boarding_pass", "loyalty_point", "travel_insurance", "train_ticket", "seat"]),
    ("smart_home", "the smart home", ["light", "thermostat", "door_lock", "security_camera", "scene", "motion_sensor", "vacuum_cleaner", "irrigation_zone", "doorbell", "energy_meter"]),
    ("crypto", "the exchange", ["wallet", "limit_order", "price_alert", "trade", "deposit_address", "withdrawal", "staking_position", "tax_report", "api_key", "order_book"]),
];

#[rustfmt::skip]
const VERBS: [(&str, &str); 5] = [
    ("create", "Create a new {} in {}. Returns its id."),
    ("list", "List every {} in {}, page by page, with optional filters."),
    ("get", "Get the details of one {} from {} by its id."),
    ("update", "Update or change fields of an existing {} in {}."),
    ("delete", "Delete or remove a {} from {}. This cannot be undone."),
];

#[rustfmt::skip]
const QUESTIONS: [(&str, &str); 50] = [
    ("create a new issue on github", "github_create_issue"),
    ("list open pull requests", "github_list_pull_request"),
    ("delete a branch from the repository", "github_delete_branch"),
    ("github_update_release", "github_update_release"),
    ("which gists are there", "github_list_gist"),
    ("slack message create", "slack_create_message"),
    ("remove a reminder in slack", "slack_delete_reminder"),
    ("change my slack status", "slack_update_status"),
    ("list slack channels", "slack_list_channel"),
    ("add a jira ticket: create", "jira_create_ticket"),
    ("get details of a sprint", "jira_get_sprint"),
    ("update an epic in jira", "jira_update_epic"),
    ("create calendar event", "calendar_create_event"),
    ("list my availability", "calendar_list_availability"),
    ("deleting recurring meetings", "calendar_delete_recurring_meeting"),
    ("create an email draft", "mail_create_draft"),
    ("update vacation reply in gmail", "mail_update_vacation_reply"),
    ("list mail filters", "mail_list_mail_filter"),
    ("get a file from google drive", "drive_get_file"),
    ("change permissions of something on drive", "drive_update_permission"),
    ("refund a customer: create refund in stripe", "stripe_create_refund"),
    ("list unpaid invoices", "stripe_list_invoice"),
    ("update the subscription of a customer", "stripe_update_subscription"),
    ("create discount code for the shop", "shopify_create_discount_code"),
    ("inventory levels list shopify", "shopify_list_inventory_level"),
    ("delete gift card", "shopify_delete_gift_card"),
    ("create an s3 bucket", "aws_s3_create_bucket"),
    ("change the lifecycle policy of a bucket", "aws_s3_update_lifecycle_policy"),
    ("list pods", "kubernetes_list_pod"),
    ("update deployment kubernetes", "kubernetes_update_deployment"),
    ("delete a cron job in the cluster", "kubernetes_delete_cron_job"),
    ("create table in postgres", "postgres_create_table"),
    ("remove a database role", "postgres_delete_database_role"),
    ("list backups of postgresql", "postgres_list_backup"),
    ("create a sales lead", "salesforce_create_lead"),
    ("update opportunities in salesforce", "salesforce_update_opportunity"),
    ("get a support request from zendesk", "zendesk_get_support_request"),
    ("create help articles", "zendesk_create_help_article"),
    ("create a spotify playlist", "spotify_create_playlist"),
    ("get listening history", "spotify_get_listening_history"),
    ("weather forecast details", "weather_get_forecast"),
    ("list storm alerts", "weather_list_storm_alert"),
    ("get a route on the map", "maps_get_route"),
    ("list traffic reports", "maps_list_traffic_report"),
    ("create leave request for an employee", "hr_create_leave_request"),
    ("change an expense claim", "hr_update_expense_claim"),
    ("delete hotel booking", "travel_delete_hotel_booking"),
    ("getBoardingPass", "travel_get_boarding_pass"),
    ("change the thermostat", "smart_home_update_thermostat"),
    ("create price alert for bitcoin", "crypto_create_price_alert"),
];

fn thousand() -> Vec<Definition> {
    let mut tools = Vec::new();
    for (service, title, things) in SERVICES {
        for thing in things {
            for (verb, text) in VERBS {
                let words = thing.replace('_', " ");
                let text = text.replacen("{}", &words, 1).replacen("{}", title, 1);
                let schema = json!({"type": "object", "properties": {
                    format!("{thing}_id"): {"type": "string"},
                    "fields": {"type": "object"},
                    "page": {"type": "integer"},
                }});
                let name = format!("{service}_{verb}_{thing}");
                tools.push(
                    Definition::new(name, text, &schema)
                        .unwrap()
                        .tags([service]),
                );
            }
        }
    }
    tools
}

/// Of fifty questions, at least nine in ten have their tool among the first five.
#[test]
fn questions_find_their_tools() {
    let tools = thousand();
    assert_eq!(tools.len(), 1000);
    let index = Index::build(&tools);
    let mut missed = Vec::new();
    for (question, wanted) in QUESTIONS {
        let found = index.search(question).into_iter().take(5);
        let found: Vec<&str> = found.map(|at| tools[at].name()).collect();
        if !found.contains(&wanted) {
            missed.push((question, wanted, found));
        }
    }
    assert!(missed.len() * 10 <= QUESTIONS.len(), "{missed:#?}");
}

/// The rule of other hosts: whatever has the query in its name, description or a tag is found.
#[test]
fn a_part_of_a_word_finds_all_that_have_it() {
    let tools = thousand();
    let index = Index::build(&tools);
    for query in [
        "hub",
        "ISSUE",
        "cannot be undone",
        "s3",
        "e",
        "_list_",
        "list every light",
    ] {
        let found = index.search(query);
        let wanted = query.to_lowercase();
        for (at, tool) in tools.iter().enumerate() {
            let mut texts = tool
                .all_tags()
                .iter()
                .map(String::as_str)
                .chain([tool.name(), tool.description()]);
            let has_it = texts.any(|text| text.to_lowercase().contains(&wanted));
            assert!(!has_it || found.contains(&at), "{query}: {}", tool.name());
        }
        let mut once = found.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), found.len());
    }
}

#[test]
fn exact_names_come_first() {
    let tools = thousand();
    let index = Index::build(&tools);
    for at in [0, 17, 999] {
        assert_eq!(index.search(tools[at].name()).first(), Some(&at));
    }
}
