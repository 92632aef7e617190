//! A value has one fate on both databases.

use kernel::{JsonText, Timestamp};
use proptest::{
    prelude::{Just, Strategy, any, prop, prop_oneof},
    strategy::ValueTree as _,
    test_runner::TestRunner,
};
use sea_orm::{ActiveValue::Set, EntityTrait as _, QueryOrder as _};
use store::{Error, Json, Store, Text};
use testkit::on_every_database;

use crate::table::{self, item};

/// JSON texts in one transaction of the property below.
const TEXTS: usize = 256;

/// JSON as a model or a server may write it: integers of any length, odd escapes, keys that come twice.
fn any_json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "-?(0|[1-9][0-9]{0,40})",
        "-?[0-9]\\.[0-9]{1,20}([eE][+-]?[0-9]{1,3})?",
        Just("null".to_owned()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        r#""(\\u0000|\\ud800|\\udc00|\\ud83d\\ude00|\\n|\\\\|[ a-z\u{80}-\u{2fff}'%;$]){0,8}""#,
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec(("[a-c]", inner), 0..6).prop_map(|members| {
                let members: Vec<String> = members
                    .into_iter()
                    .map(|(key, value)| format!("\"{key}\" : {value}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

on_every_database! {
    async fn odd_values_read_back_as_they_were_made(store: Store) {
        table::create(&store).await;
        let json = JsonText::parse(r#"{"big":123456789012345678901234567890,"nul":"a\u0000b","lone":"\ud800","twice":1,"twice":2,"e":1e400}"#)
            .expect("JSON");
        let written = item::Model {
            id: 1,
            name: Text::from("a\0b 村"),
            at: Timestamp::from_micros(1_795_000_000_123_456).into(),
            data: Some(Json(json.clone())),
            place: Some(uuid::Uuid::from_u128(7)),
        };
        let row: item::ActiveModel = written.clone().into();
        store
            .write(move |tx| Box::pin(async move {
                item::Entity::insert(row).exec(tx).await?;
                Ok::<_, Error>(())
            }))
            .await
            .expect("the row is written");
        let read = item::Entity::find_by_id(1).one(store.reader()).await.expect("a read").expect("the row");
        assert_eq!(read, written);
        assert_eq!(read.name.as_str(), "a\u{FFFD}b 村");
        assert_eq!(
            json.as_str(),
            "{\"big\":123456789012345678901234567890,\"nul\":\"a\u{FFFD}b\",\"lone\":\"\u{FFFD}\",\"twice\":2,\"e\":1e400}"
        );
    }

    async fn any_json_reads_back_digit_for_digit(store: Store) {
        table::create(&store).await;
        let mut runner = TestRunner::default();
        let strategy = any_json_text();
        let texts: Vec<JsonText> = (0..TEXTS)
            .map(|_| {
                let text = strategy.new_tree(&mut runner).expect("a value").current();
                JsonText::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
            })
            .collect();
        let written = texts.clone();
        store
            .write(move |tx| Box::pin(async move {
                for (id, json) in (0..).zip(written) {
                    let mut row = table::row(id);
                    row.data = Set(Some(Json(json)));
                    item::Entity::insert(row).exec(tx).await?;
                }
                Ok::<_, Error>(())
            }))
            .await
            .expect("the rows are written");
        let read = item::Entity::find().order_by_asc(item::Column::Id).all(store.reader()).await.expect("a read");
        let read: Vec<JsonText> = read.into_iter().map(|item| item.data.expect("its JSON").0).collect();
        for (read, written) in read.iter().zip(&texts) {
            assert_eq!(read.as_str(), written.as_str());
        }
        assert_eq!(read.len(), TEXTS);
    }

    async fn times_sort_as_times(store: Store) {
        table::create(&store).await;
        let times = [1_795_000_000_540_000_i64, 1_795_000_000_500_000, 1_795_000_000_500_001, -1];
        store
            .write(move |tx| Box::pin(async move {
                for (id, micros) in (0..).zip(times) {
                    let mut row = table::row(id);
                    row.at = Set(Timestamp::from_micros(micros).into());
                    item::Entity::insert(row).exec(tx).await?;
                }
                Ok::<_, Error>(())
            }))
            .await
            .expect("the rows are written");
        let read = item::Entity::find().order_by_asc(item::Column::At).all(store.reader()).await.expect("a read");
        let read: Vec<i64> = read.iter().map(|item| item.at.timestamp().as_micros()).collect();
        assert_eq!(read, [-1, 1_795_000_000_500_000, 1_795_000_000_500_001, 1_795_000_000_540_000]);
    }
}
