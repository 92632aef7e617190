//! A table that these tests write to.

use sea_orm::IntoActiveModel as _;
use sea_orm::entity::prelude::*;
use store::{Error, Json, Micros, Store, Text};

pub(crate) mod item {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "items")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub(crate) id: i32,
        pub(crate) name: Text,
        pub(crate) at: Micros,
        pub(crate) data: Option<Json>,
        pub(crate) place: Option<Uuid>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Makes the tables `items` and `notes`, which refer to an item.
pub(crate) async fn create(store: &Store) {
    store
        .write(|tx| {
            Box::pin(async move {
                for statement in [
                    "CREATE TABLE items (id integer PRIMARY KEY, name text NOT NULL, at bigint NOT NULL, data text, place uuid)",
                    "CREATE UNIQUE INDEX unique_items_name_at ON items (name, at)",
                    "CREATE TABLE notes (id integer PRIMARY KEY, item_id integer NOT NULL REFERENCES items (id))",
                ] {
                    tx.execute_unprepared(statement).await?;
                }
                Ok::<_, Error>(())
            })
        })
        .await
        .expect("the tables are made");
}

pub(crate) fn row(id: i32) -> item::ActiveModel {
    item::Model {
        id,
        name: Text::from(format!("item {id}")),
        at: kernel::Timestamp::from_micros(0).into(),
        data: None,
        place: None,
    }
    .into_active_model()
    .reset_all()
}

pub(crate) async fn insert(store: &Store, id: i32) -> Result<(), Error> {
    store
        .write(move |tx| {
            Box::pin(async move {
                item::Entity::insert(row(id)).exec(tx).await?;
                Ok(())
            })
        })
        .await
}

/// The ids that are there.
pub(crate) async fn ids(store: &Store) -> Vec<i32> {
    use sea_orm::QueryOrder as _;
    item::Entity::find()
        .order_by_asc(item::Column::Id)
        .all(store.reader())
        .await
        .expect("the items are read")
        .into_iter()
        .map(|item| item.id)
        .collect()
}
