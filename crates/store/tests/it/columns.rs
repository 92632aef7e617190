//! A value has one fate on both databases.

use kernel::{JsonText, Timestamp};
use sea_orm::{ActiveValue::Set, EntityTrait as _, QueryOrder as _};
use store::{Error, Json, Store, Text};
use testkit::on_every_database;

use crate::table::{self, item};

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
